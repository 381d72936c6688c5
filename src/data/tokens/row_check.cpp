#include "data/tokens/row_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"

namespace longhaul::data {

std::optional<int32_t> role_without_row(const Tokenizer& tokenizer, int64_t rows) {
  std::vector<int32_t> ids = tokenizer.beginning();
  ids.insert(ids.end(), tokenizer.after().begin(), tokenizer.after().end());
  if (const auto end = tokenizer.end_of_document()) ids.push_back(*end);
  const auto above = std::ranges::find_if(ids, [&](int32_t id) { return id >= rows; });
  return above != ids.end() ? std::optional(*above) : std::nullopt;
}

int64_t require_rows(const Tokenizer& tokenizer, int64_t rows, const std::string& where,
                     const std::string& hint) {
  const auto role = role_without_row(tokenizer, rows);
  if (role) {
    throw Error(
        {.code = ExitCode::kData,
         .what = "the tokenizer has more entries than the model has rows",
         .expected = fmt::format(
             "at most {}, or at least a row for each token that begins, separates or ends texts", rows),
         .found = fmt::format("{}, and {} is token {}", tokenizer.vocabulary(),
                              printable(*tokenizer.token_of(*role)), *role),
         .where = where,
         .hint = hint});
  }
  int64_t above = 0;
  for (int64_t id = rows; id < tokenizer.vocabulary(); ++id)
    above += tokenizer.token_of(static_cast<int32_t>(id)) ? 1 : 0;
  return above;
}

void require_ids_below(const TokenDataset& dataset, int64_t rows, const std::string& hint) {
  constexpr int64_t kAtOnce = 1 << 16;
  const auto refuse = [&](int64_t id, const std::string& as) {
    throw Error({.code = ExitCode::kData,
                 .what = "the data hold a token for which the model has no row",
                 .expected = fmt::format("ids from 0 to {}", rows - 1),
                 .found = fmt::format("id {} as {}", id, as),
                 .where = dataset.folder().string(),
                 .hint = hint});
  };
  if (dataset.identity().separator >= rows)
    refuse(dataset.identity().separator, "the token between documents");
  std::vector<int64_t> ids(kAtOnce);
  for (int64_t d = 0; d < dataset.documents(); ++d) {
    for (int64_t first = 0; first < dataset.length(d); first += kAtOnce) {
      const std::span part(ids.data(), static_cast<size_t>(std::min(kAtOnce, dataset.length(d) - first)));
      dataset.read(d, first, part);
      const auto above = std::ranges::find_if(part, [&](int64_t id) { return id >= rows; });
      if (above == part.end()) continue;
      refuse(*above, fmt::format("token {} of document {}", first + (above - part.begin()) + 1, d + 1));
    }
  }
}

}  // namespace longhaul::data
