#include "kernels/matmul/product.h"
#include "kernels/matmul/tasks.h"
#include "kernels/stream.h"

namespace longhaul::kernels {
namespace {

// Packs one stretch of one panel in the nearest cache and moves it past the caches: the copies are read in
// the next step.
template <class Element>
void pack_past_caches(const Element* source, int64_t ld, bool transposed, int64_t k, int64_t columns,
                      Element* panel) {
  alignas(64) Element stretch[Chunks::kLongest * kPanelColumns];
  block_kernels().pack(source, ld, transposed, k, columns, stretch);
  stream_copy(stretch, panel, panel_rows<Element>(k) * kPanelColumns);
}

// Panels lie apart by the whole chunk, so a stretch of k goes into each by a call of its own.
template <class Element>
void pack_rows_for_input(const WeightsToPack<Element>& from, const PanelLayout<Element>& layout,
                         const Element* rows, int64_t begin, int64_t end, Element* panels) {
  for (int64_t at = begin; at < end;) {
    const int64_t chunk = at / layout.chunks.length, into = at - layout.chunks.begin(chunk);
    const int64_t count = std::min(end - at, layout.chunks.length_of(chunk) - into);
    for (int64_t j = 0; j < from.in; j += kPanelColumns) {
      pack_past_caches(rows + (at - begin) * from.in + j, from.in, false, count,
                       std::min(kPanelColumns, from.in - j),
                       panels + layout.offset(chunk, j) + into * kPanelColumns);
    }
    at += count;
  }
}

}  // namespace

template <class Element>
void pack_weights(const WeightsToPack<Element>& from, Element* panels) {
  const int64_t k = from.for_input ? from.out : from.in, n = from.for_input ? from.in : from.out;
  const PanelLayout<Element> layout(k, n, from.longest);
  constexpr int64_t kColumns = 64;
  struct Piece {
    int64_t matrix, chunk, column;
  };
  TaskList<Piece> pieces;
  for (int64_t matrix = 0; matrix < from.matrices; ++matrix) {
    for (int64_t chunk = 0; chunk < layout.chunks.count; ++chunk) {
      for (int64_t j = 0; j < n; j += kColumns)
        pieces.add({matrix, chunk, j}, layout.chunks.length_of(chunk) * kColumns);
    }
  }
  const BlockKernels& kernels = block_kernels();
  pieces.run(1 << 15, [&](const Piece* first, const Piece* last) {
    for (const Piece* piece = first; piece != last; ++piece) {
      const int64_t begin = layout.chunks.begin(piece->chunk);
      const Element* const source = from.weights + piece->matrix * k * n +
                                    (from.for_input ? begin * n + piece->column : piece->column * k + begin);
      kernels.pack(source, from.in, !from.for_input, layout.chunks.length_of(piece->chunk),
                   std::min(kColumns, n - piece->column),
                   panels + piece->matrix * layout.size() + layout.offset(piece->chunk, piece->column));
    }
  });
}

template <class Element>
void pack_rows(const WeightsToPack<Element>& from, int64_t matrix, int64_t begin, int64_t end,
               Element* panels) {
  const PanelLayout<Element> layout(from.for_input ? from.out : from.in, from.for_input ? from.in : from.out,
                                    from.longest);
  const Element* const rows = from.weights + (matrix * from.out + begin) * from.in;
  Element* const to = panels + matrix * layout.size();
  const StreamScope stream;
  if (from.for_input) return pack_rows_for_input(from, layout, rows, begin, end, to);
  for (int64_t chunk = 0; chunk < layout.chunks.count; ++chunk) {
    for (int64_t j = begin; j < end; j += kPanelColumns) {
      pack_past_caches(rows + (j - begin) * from.in + layout.chunks.begin(chunk), from.in, true,
                       layout.chunks.length_of(chunk), std::min(kPanelColumns, end - j),
                       to + layout.offset(chunk, j));
    }
  }
}

template void pack_weights(const WeightsToPack<uint16_t>&, uint16_t*);
template void pack_weights(const WeightsToPack<float>&, float*);
template void pack_rows(const WeightsToPack<uint16_t>&, int64_t, int64_t, int64_t, uint16_t*);
template void pack_rows(const WeightsToPack<float>&, int64_t, int64_t, int64_t, float*);

}  // namespace longhaul::kernels
