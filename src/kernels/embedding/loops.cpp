#include "kernels/embedding/loops.h"

#include <cstring>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

template <class In>
void rows(const EmbeddingForward& p, int64_t begin, int64_t end) {
  const VectorTag<In> d;
  for (int64_t t = begin; t < end; ++t) {
    const In* row = static_cast<const In*>(p.table_vd) + p.ids_t[t] * p.hidden;
    In* out = static_cast<In*>(p.out_td) + t * p.hidden;
    if (p.positions_t == nullptr) {
      std::memcpy(out, row, static_cast<size_t>(p.hidden) * sizeof(In));
      continue;
    }
    const In* position = static_cast<const In*>(p.position_table_pd) + p.positions_t[t] * p.hidden;
    walk(d, p.hidden, [&](auto at) LONGHAUL_VECTOR {
      store(d, hn::Add(load(d, row, at), load(d, position, at)), out, at);
    });
  }
}

template <class In>
void add_rows(const EmbeddingBackward& p, int64_t begin, int64_t end) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const auto id = [&](int64_t i) { return p.ids_t[p.order_t[i]]; };
  while (begin < end && begin > 0 && id(begin) == id(begin - 1)) ++begin;  // began in the piece before
  for (int64_t i = begin; i < end;) {
    Real* sum = static_cast<Real*>(p.sink_vd) + id(i) * p.hidden;
    int64_t next = i;
    do {
      const In* dy = static_cast<const In*>(p.dy_td) + p.order_t[next] * p.hidden;
      walk(d, p.hidden,
           [&](auto at) LONGHAUL_VECTOR { store(d, hn::Add(load(d, sum, at), load(d, dy, at)), sum, at); });
      ++next;
    } while (next < p.tokens && id(next) == id(i));
    i = next;
  }
}

void rows_any(const EmbeddingForward& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { rows<decltype(in)>(p, begin, end); });
}
void add_rows_any(const EmbeddingBackward& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { add_rows<decltype(in)>(p, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void embedding_rows(const EmbeddingForward& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(rows_any)(p, begin, end);
}
void embedding_add_rows(const EmbeddingBackward& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(add_rows_any)(p, begin, end);
}

}  // namespace longhaul::kernels
#endif
