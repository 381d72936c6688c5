#include "base/process/environment.h"

#include <cstring>

extern char** environ;

namespace longhaul {

std::vector<char*> merge_environment(const std::vector<std::string>& extra,
                                     const std::function<bool(std::string_view name)>& inherits) {
  std::vector<char*> merged;
  for (char** entry = environ; *entry; ++entry) {
    const auto name_length =
        static_cast<size_t>(std::strchr(*entry, '=') ? std::strchr(*entry, '=') - *entry + 1 : 0);
    bool replaced = inherits && !inherits(std::string_view(*entry, name_length == 0 ? 0 : name_length - 1));
    for (const std::string& text : extra)
      replaced |= name_length > 0 && text.compare(0, name_length, *entry, name_length) == 0;
    if (!replaced) merged.push_back(*entry);
  }
  for (const std::string& text : extra) merged.push_back(const_cast<char*>(text.c_str()));
  merged.push_back(nullptr);
  return merged;
}

}  // namespace longhaul
