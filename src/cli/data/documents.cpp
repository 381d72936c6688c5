#include "cli/data/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "observe/table.h"
#include "posttrain/chat/shown_samples.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;

// Tokens begin … end of a document; `ends`: the label after them is the document's end, and weighs the same.
// A whole document has no end of its own.
struct ShownPart {
  int64_t begin, end;
  float weight;
  bool ends;
  std::string text;
};

std::vector<ShownPart> parts_of_document(const data::TokenDataset& dataset, int64_t document,
                                         const ShownDocuments& shown) {
  std::vector<data::LossSegment> segments = dataset.segments(document);
  if (segments.empty()) segments = {{dataset.length(document), 1.0f}};
  std::vector<ShownPart> parts;
  int64_t begin = 0;
  for (size_t s = 0; s < segments.size(); ++s) {
    std::vector<int64_t> ids(static_cast<size_t>(segments[s].end - begin));
    dataset.read(document, begin, ids);
    const std::vector<int32_t> narrow(ids.begin(), ids.end());
    parts.push_back({begin, segments[s].end, segments[s].weight,
                     s + 1 == segments.size() && !dataset.identity().whole(),
                     shown.tokenizer ? shown.tokenizer->decode(narrow) : ""});
    begin = segments[s].end;
  }
  return parts;
}

// Calls of(name of the side, dataset, document) for the first documents of each side.
template <class Body>
void for_shown(const data::PreparedSource& source, const ShownDocuments& shown, const Body& of) {
  for (const auto& [name, dataset] :
       {std::pair("training", &source.train), std::pair("held out", &source.held_out)}) {
    for (int64_t d = 0; d < std::min(shown.most, dataset->documents()); ++d) of(name, *dataset, d);
  }
}

}  // namespace

void require_tokenizer_of(const data::PreparedSource& source, const ShownDocuments& shown) {
  if (!shown.tokenizer || shown.tokenizer->sha256() == source.identity.tokenizer_sha256) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "the tokens were made with another tokenizer",
       .expected = "the tokenizer with sha256 " + source.identity.tokenizer_sha256,
       .found = shown.tokenizer->sha256(),
       .where = text_of_path(source.folder),
       .hint = "--tokenizer names the tokenizer.json of the recipe (or bytes); without it no text is shown"});
}

void print_documents(const data::PreparedSource& source, const ShownDocuments& shown) {
  if (source.identity.whole() && shown.tokenizer) {
    for (const auto& [name, side] :
         {std::pair("training", &source.train), std::pair("held out", &source.held_out)}) {
      if (std::min(shown.most, side->documents()) == 0) continue;
      print(
          fmt::format("{}. {}\n", name,
                      posttrain::shown_samples(*side, shown.most, *shown.tokenizer, colours_wanted(stdout))));
    }
    return;
  }
  for_shown(source, shown, [&](const std::string& side, const data::TokenDataset& dataset, int64_t document) {
    observe::Table table(
        fmt::format("{}, document {} of {}", side, document + 1, count_text(dataset.documents())),
        {{"labels"}, {"weight in the loss", observe::Align::kRight}, {"text"}});
    for (const ShownPart& part : parts_of_document(dataset, document, shown)) {
      const std::string labels =
          part.end == part.begin ? "" : fmt::format("{} to {}", part.begin + 1, part.end);
      const std::string end = part.ends ? (labels.empty() ? "end" : " and end") : "";
      table.row({labels + end, part.weight == 0 ? "none" : fmt::format("{:g}", part.weight),
                 printable(brief(part.text))});
    }
    print(table.text(colours_wanted(stdout)));
  });
}

ordered_json json_of_documents(const data::PreparedSource& source, const ShownDocuments& shown) {
  ordered_json list = ordered_json::array();
  for_shown(source, shown, [&](const std::string& side, const data::TokenDataset& dataset, int64_t document) {
    ordered_json parts = ordered_json::array();
    for (const ShownPart& part : parts_of_document(dataset, document, shown)) {
      parts.push_back(
          {{"begin", part.begin}, {"end", part.end}, {"weight", part.weight}, {"ends_document", part.ends}});
      if (shown.tokenizer) parts.back()["text"] = part.text;
    }
    list.push_back(
        {{"side", side}, {"document", document}, {"tokens", dataset.length(document)}, {"parts", parts}});
  });
  return list;
}

}  // namespace longhaul::cli
