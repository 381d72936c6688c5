// The page at `/` of `longhaul serve`: a conversation with a model in the browser. One file without anything
// from elsewhere, which asks the server's own paths as any client does. Texts of models are shown as text and
// never as HTML.
#pragma once

#include "base/net/http_responder.h"

namespace longhaul::serve {

HttpReply chat_page();

}  // namespace longhaul::serve
