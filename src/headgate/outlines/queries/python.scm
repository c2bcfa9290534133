(class_definition name: (identifier) @name) @class
(function_definition name: (identifier) @name) @function
(module (expression_statement (assignment left: (identifier) @name)) @constant)
(module . (comment)* . (expression_statement (string) @purpose))
(import_statement) @import
(import_from_statement) @import
(comment) @comment
(string) @string
