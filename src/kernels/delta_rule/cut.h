// How the form in LibTorch's operators cuts its work (chunked.h), as plain integers: documents into chunks of
// `width` tokens, and chunks into spans, which are worked on one after another. A span takes whole documents,
// as many as it has room for; or pieces of documents that are longer than that, of the same steps, which end
// together but for documents that end before. Step s takes chunk s of every document that has one, all at
// once: what waits for one another is as long as the longest document.
// Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::kernels {

struct DeltaSpanCut {
  int64_t chunks() const { return steps.back(); }
  int64_t tokens() const { return static_cast<int64_t>(token.size()); }

  std::vector<int64_t> documents;  // longest first
  // of pieces that do not begin their documents: the first of their states among those that are kept
  int64_t kept = -1;
  std::vector<int64_t> steps;  // [steps + 1]: where the chunks of each begin; they are of the first documents
  std::vector<int64_t> last;   // of each document: its last chunk here
  // places[p] is the token at place p [chunks · width], −1 behind the document's end; token i of this cut
  // stands at place[i] and is number token[i] of the input.
  std::vector<int64_t> places, place, token;
};

struct DeltaCut {
  int64_t width = 0, kept = 0;  // kept: states that enter spans within documents
  std::vector<DeltaSpanCut> spans;
};

struct DeltaRoom {
  int64_t chunks = 1;          // of a span
  int64_t long_documents = 1;  // whose pieces go together, at most as many as chunks
};

DeltaCut delta_cut(const std::vector<int64_t>& offsets, int64_t width, const DeltaRoom& room);

}  // namespace longhaul::kernels
