(function_definition name: (name) @name) @function
(class_declaration name: (name) @name) @class
(interface_declaration name: (name) @name) @interface
(trait_declaration name: (name) @name) @trait
(enum_declaration name: (name) @name) @enum
(method_declaration name: (name) @name) @method
(namespace_use_clause [(qualified_name) (name)] @import)
(comment) @comment
[(string) (encapsed_string) (heredoc)] @string
