#include "kernels/delta_rule/cut.h"

#include <algorithm>
#include <numeric>

namespace longhaul::kernels {
namespace {

struct Cutter {
  const std::vector<int64_t>& offsets;
  int64_t width;

  int64_t length(int64_t n) const {
    return offsets[static_cast<size_t>(n) + 1] - offsets[static_cast<size_t>(n)];
  }
  int64_t chunks(int64_t n) const { return (length(n) + width - 1) / width; }

  void add_chunk(DeltaSpanCut& span, int64_t n, int64_t chunk) const {
    const int64_t start = chunk * width, tokens = std::min(width, length(n) - start);
    for (int64_t i = 0; i < width; ++i) {
      const int64_t token = i < tokens ? offsets[static_cast<size_t>(n)] + start + i : -1;
      if (token >= 0) {
        span.place.push_back(static_cast<int64_t>(span.places.size()));
        span.token.push_back(token);
      }
      span.places.push_back(token);
    }
  }

  // Chunks first … end − 1 of each document that has them.
  DeltaSpanCut span_of(const std::vector<int64_t>& documents, int64_t first, int64_t end) const {
    DeltaSpanCut span{.documents = documents, .steps = {0}, .last = std::vector<int64_t>(documents.size())};
    for (int64_t chunk = first; chunk < end; ++chunk) {
      int64_t count = span.steps.back();
      for (size_t rank = 0; rank < documents.size() && chunk < chunks(documents[rank]); ++rank) {
        add_chunk(span, documents[rank], chunk);
        span.last[rank] = count++;
      }
      span.steps.push_back(count);
    }
    return span;
  }
};

}  // namespace

DeltaCut delta_cut(const std::vector<int64_t>& offsets, int64_t width, const DeltaRoom& room) {
  const Cutter cutter{offsets, width};
  std::vector<int64_t> order(offsets.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int64_t n) { return cutter.length(n) == 0; });
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return cutter.chunks(a) > cutter.chunks(b); });
  DeltaCut cut{.width = width};
  for (size_t i = 0; i < order.size();) {
    const int64_t longest = cutter.chunks(order[i]);
    const bool pieces = longest > room.chunks;
    std::vector<int64_t> documents;
    int64_t left = pieces ? room.long_documents : room.chunks;
    for (; i < order.size() && (cutter.chunks(order[i]) > room.chunks) == pieces; ++i) {
      left -= pieces ? 1 : cutter.chunks(order[i]);
      if (left < 0) break;
      documents.push_back(order[i]);
    }
    const int64_t steps = pieces ? room.chunks / static_cast<int64_t>(documents.size()) : longest;
    for (int64_t first = 0; first < longest; first += steps) {
      while (cutter.chunks(documents.back()) <= first) documents.pop_back();
      cut.spans.push_back(cutter.span_of(documents, first, std::min(longest, first + steps)));
      if (first == 0) continue;
      cut.spans.back().kept = cut.kept;
      cut.kept += static_cast<int64_t>(documents.size());
    }
  }
  return cut;
}

}  // namespace longhaul::kernels
