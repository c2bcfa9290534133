(class_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @interface
(struct_declaration name: (identifier) @name) @struct
(record_declaration name: (identifier) @name) @class
(enum_declaration name: (identifier) @name) @enum
(method_declaration name: (identifier) @name) @method
(constructor_declaration name: (identifier) @name) @method
(property_declaration name: (identifier) @name) @property
(using_directive [(qualified_name) (identifier)] @import)
(comment) @comment
[(string_literal) (verbatim_string_literal) (interpolated_string_expression) (character_literal)] @string
