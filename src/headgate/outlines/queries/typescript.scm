(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(class_declaration name: (type_identifier) @name) @class
(method_definition name: [(property_identifier) (private_property_identifier)] @name) @method
(lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)] @value)) @function
(variable_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)] @value)) @function
(assignment_expression left: (member_expression property: (property_identifier) @name) right: [(arrow_function) (function_expression)] @value) @function
(pair key: (property_identifier) @name value: [(arrow_function) (function_expression)] @value) @method
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(program (variable_declaration (variable_declarator name: (identifier) @name)) @constant)
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(import_statement source: (string) @import)
(export_statement source: (string) @import)
(call_expression function: (identifier) @callee arguments: (arguments . (string) @import) (#eq? @callee "require"))
(comment) @comment
[(string) (template_string) (regex)] @string
(abstract_class_declaration name: (type_identifier) @name) @class
(interface_declaration name: (type_identifier) @name) @interface
(type_alias_declaration name: (type_identifier) @name) @type
(enum_declaration name: (identifier) @name) @enum
(function_signature name: (identifier) @name) @function
(method_signature name: (property_identifier) @name) @method
(abstract_method_signature name: (property_identifier) @name) @method
