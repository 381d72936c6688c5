#include "posttrain/chat/shown_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text/text.h"

namespace longhaul::posttrain {
namespace {

// of a sample; of a longer one so many from its beginning and its end together
constexpr size_t kShownTokens = 400;

struct LearntColours {
  std::string_view learnt, other, end;
};

LearntColours learnt_colours(bool colours) {
  return colours ? LearntColours{"\x1b[1;32m", "\x1b[2m", "\x1b[0m"} : LearntColours{"⟦", "", "⟧"};
}

// The weights of all tokens; the first is no label, and weighs nothing.
std::vector<float> weights_of_tokens(const data::TokenDataset& dataset, int64_t document) {
  std::vector<float> weights(static_cast<size_t>(dataset.length(document)));
  const auto labels = std::span(weights).last(static_cast<size_t>(dataset.labels(document)));
  dataset.read_weights(document, 0, labels);
  return weights;
}

std::string text_of_run(const std::vector<int32_t>& ids, const data::Tokenizer& tokenizer, float weight,
                        const LearntColours& marks) {
  const std::string text = printable(tokenizer.decode(ids), LineEnds::kKept);
  if (weight == 0) return marks.other.empty() ? text : fmt::format("{}{}{}", marks.other, text, marks.end);
  const std::string told = weight == 1 ? "" : fmt::format(" (weighs {:g})", weight);
  return fmt::format("{}{}{}{}", marks.learnt, text, told, marks.end);
}

}  // namespace

std::string shown_sample(const data::TokenDataset& dataset, int64_t document,
                         const data::Tokenizer& tokenizer, bool colours) {
  const LearntColours marks = learnt_colours(colours);
  std::vector<int64_t> ids(static_cast<size_t>(dataset.length(document)));
  dataset.read(document, 0, ids);
  const std::vector<float> weights = weights_of_tokens(dataset, document);
  std::string text;
  std::vector<int32_t> run;
  const size_t left_from = ids.size() > kShownTokens ? kShownTokens / 2 : ids.size();
  const size_t left_to = ids.size() > kShownTokens ? ids.size() - kShownTokens / 2 : ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i == left_from)
      text +=
          fmt::format(" … {} left out here … ", counted(static_cast<int64_t>(left_to - left_from), "token"));
    if (i >= left_from && i < left_to) continue;
    run.push_back(static_cast<int32_t>(ids[i]));
    const bool ends = i + 1 == ids.size() || i + 1 == left_from || weights[i + 1] != weights[i];
    if (!ends) continue;
    text += text_of_run(run, tokenizer, weights[i], marks);
    run.clear();
  }
  const auto learnt = std::ranges::count_if(weights, [](float weight) { return weight > 0; });
  return fmt::format("sample {} of {}: {}, {} learnt\n{}\n", document + 1, dataset.documents(),
                     counted(std::ssize(ids), "token"), learnt, text);
}

std::string shown_samples(const data::TokenDataset& dataset, int64_t most, const data::Tokenizer& tokenizer,
                          bool colours) {
  const LearntColours marks = learnt_colours(colours);
  std::string text = fmt::format("What is learnt: {}these tokens{}; {}the others are read only{}\n",
                                 marks.learnt, marks.end, marks.other, colours ? marks.end : "");
  for (int64_t d = 0; d < std::min(most, dataset.documents()); ++d)
    text += "\n" + shown_sample(dataset, d, tokenizer, colours);
  return text;
}

}  // namespace longhaul::posttrain
