# Sentences of `onecard estimate`.
