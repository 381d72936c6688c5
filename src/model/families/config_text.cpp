#include "model/families/config_text.h"

#include <algorithm>

namespace longhaul::model {

std::string json_of_python(std::string_view text) {
  std::string json;
  bool in_text = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    size_t taken = 1;
    std::string_view written = rest.substr(0, 1);
    if (in_text && rest.starts_with('\\')) {
      taken = std::min<size_t>(2, rest.size());
      written = rest.substr(0, taken);
    } else if (rest.starts_with('"')) {
      in_text = !in_text;
    } else if (!in_text) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (!rest.starts_with(word)) continue;
        taken = word.size();
        written = "null";
        break;
      }
    }
    json += written;
    i += taken;
  }
  return json;
}

}  // namespace longhaul::model
