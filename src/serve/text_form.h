// The grammar that the texts of a request are held to: that of its response_format, or of the call that
// tool_choice asks for.
#pragma once

#include <memory>

#include "openai/request.h"
#include "serve/model_shelf.h"

namespace longhaul::serve {

// null: any text. ApiError 400: a schema that cannot be followed, or a model whose template writes calls in a
// form that is not known here.
std::shared_ptr<grammar::TokenGrammar> grammar_of(const openai::CompletionRequest& request,
                                                  const ModelText& text);

}  // namespace longhaul::serve
