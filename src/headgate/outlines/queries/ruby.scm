(class name: (_) @name) @class
(module name: (_) @name) @module
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(program (assignment left: (constant) @name) @constant)
(call method: (identifier) @callee arguments: (argument_list . (string) @import) (#any-of? @callee "require" "require_relative" "load"))
(comment) @comment
[(string) (heredoc_body) (regex)] @string
