#include "library_calls.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>
#include <optional>
#include <tuple>

namespace longhaul::testing {
namespace {

using at::Tensor;

LibraryFault broken = LibraryFault::kNone;

// ---- products (aten/src/ATen/native/cuda/Blas.cpp of LibTorch 2.11)

// cuBLAS multiplies where one of the two dimensions is contiguous, and LibTorch copies everything else: a
// copy would be a pass over the matrix that nobody sees.
void check_matrix(const Tensor& x, const char* name) {
  TORCH_CHECK(x.dim() == 2, name, " must be a matrix, got ", x.dim(), "-D tensor");
  TORCH_CHECK(x.stride(0) == 1 || x.stride(1) == 1 || x.numel() == 0, name, " would be copied");
}

void check_product(const Tensor& a, const Tensor& b, at::ScalarType type, const Tensor& out) {
  TORCH_CHECK(broken != LibraryFault::kMissing, "there is no kernel of that name");
  check_matrix(a, "mat1");
  check_matrix(b, "mat2");
  check_matrix(out, "out");
  TORCH_CHECK(a.size(1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied");
  TORCH_CHECK(out.size(0) == a.size(0) && out.size(1) == b.size(1), "out has another shape");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "mat1 and mat2 must have the same dtype");
  TORCH_CHECK(type == at::kFloat && a.scalar_type() == at::kBFloat16, "fp32 of bf16 inputs");
  TORCH_CHECK(out.scalar_type() == type,
              "out_dtype must be the same as the dtype of the provided out tensor");
}

Tensor mm_dtype(const Tensor& a, const Tensor& b, at::ScalarType type) {
  const Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  check_product(a, b, type, out);
  return out.copy_(at::mm(a.to(at::kDouble), b.to(at::kDouble)));
}

Tensor& mm_dtype_out(const Tensor& a, const Tensor& b, at::ScalarType type, Tensor& out) {
  check_product(a, b, type, out);
  out.copy_(at::mm(a.to(at::kDouble), b.to(at::kDouble)));
  return out;
}

Tensor& addmm_dtype_out(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType type,
                        const at::Scalar& beta, const at::Scalar& alpha, Tensor& out) {
  check_product(a, b, type, out);
  TORCH_CHECK(self.scalar_type() == type || self.scalar_type() == a.scalar_type(),
              "self dtype must match either out_dtype or mat1 dtype");
  TORCH_CHECK(self.is_same(out), "self would be copied");
  const at::Scalar kept = broken == LibraryFault::kOtherLimits ? at::Scalar(0) : beta;
  out.copy_(at::addmm(self.to(at::kDouble), a.to(at::kDouble), b.to(at::kDouble), kept, alpha));
  return out;
}

// ---- flash attention (transformers/cuda/attention.cu, flash_attn/flash_api.cpp of LibTorch 2.11)

// Of one document: what its queries see, counted from the last query at the last key. Below 0: no limit.
struct Window {
  int64_t left, right;
};

Window window_of(bool causal, std::optional<int64_t> left, std::optional<int64_t> right, int64_t most_keys) {
  Window window{left.value_or(-1), right.value_or(-1)};
  if (causal) window.right = 0;
  if (window.left >= most_keys) window.left = -1;
  if (window.right >= most_keys) window.right = -1;
  return window;
}

Tensor hidden_pairs(int64_t queries, int64_t keys, const Window& window) {
  const int64_t ahead = broken == LibraryFault::kOtherLimits ? 0 : keys - queries;
  const Tensor at_query = at::arange(queries).unsqueeze(1).add(ahead), at_key = at::arange(keys);
  Tensor hidden = at::zeros({queries, keys}, at::kBool);
  if (window.right >= 0) hidden = hidden.logical_or(at_key.gt(at_query.add(window.right)));
  if (window.left >= 0) hidden = hidden.logical_or(at_key.lt(at_query.sub(window.left)));
  return hidden;
}

void check_rows(const Tensor& x, const char* name) {
  TORCH_CHECK(x.dim() == 3, name, " is not [rows, heads, channels]");
  TORCH_CHECK(x.scalar_type() == at::kBFloat16, name,
              ": FlashAttention only support fp16 and bf16 data type");
  TORCH_CHECK(x.stride(-1) == 1, name, ": Input tensor must have contiguous last dimension");
  // 16 bytes at once
  TORCH_CHECK(x.stride(0) % 8 == 0 && x.stride(1) % 8 == 0 && x.storage_offset() % 8 == 0, name,
              ": misaligned address");
}

struct Sequences {
  Sequences(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& of_q,
            const std::optional<Tensor>& of_k, int64_t most_queries, int64_t most_keys) {
    TORCH_CHECK(broken != LibraryFault::kMissing, "USE_FLASH_ATTENTION was not enabled for build.");
    check_rows(q, "q");
    check_rows(k, "k");
    check_rows(v, "v");
    TORCH_CHECK(k.sizes() == v.sizes() && k.size(2) == q.size(2) && q.size(1) % k.size(1) == 0, "heads");
    TORCH_CHECK(q.size(2) % 8 == 0 && q.size(2) <= 256, "head_size must be a multiple of 8, up to 256");
    TORCH_CHECK(of_q && of_k && of_q->scalar_type() == at::kInt && of_k->scalar_type() == at::kInt,
                "cu_seqlens must have dtype int32");
    TORCH_CHECK(of_q->numel() == of_k->numel() && of_q->numel() > 1, "batch size must be positive");
    for (int64_t i = 0; i < of_q->numel(); ++i) {
      queries.push_back((*of_q)[i].item<int>());
      keys.push_back((*of_k)[i].item<int>());
      if (i == 0) continue;
      TORCH_CHECK(queries[i] - queries[i - 1] <= most_queries, "max_seqlen_q is too small");
      TORCH_CHECK(keys[i] - keys[i - 1] <= most_keys, "max_seqlen_k is too small");
    }
    TORCH_CHECK(queries.front() == 0 && queries.back() <= q.size(0), "cu_seqlens_q");
    TORCH_CHECK(keys.front() == 0 && keys.back() <= k.size(0), "cu_seqlens_k");
  }
  size_t count() const { return queries.size() - 1; }
  Tensor of_queries(const Tensor& x, size_t n) const {  // [heads, rows, channels] in fp64
    return x.narrow(0, queries[n], queries[n + 1] - queries[n]).to(at::kDouble).transpose(0, 1);
  }
  Tensor of_keys(const Tensor& x, size_t n, int64_t heads) const {
    return x.narrow(0, keys[n], keys[n + 1] - keys[n])
        .to(at::kDouble)
        .repeat_interleave(heads / x.size(1), 1)
        .transpose(0, 1);
  }
  std::vector<int64_t> queries, keys;
};

Tensor scores_of(const Tensor& q_htd, const Tensor& k_hsd, double scale, const Window& window) {
  return at::matmul(q_htd, k_hsd.transpose(1, 2))
      .mul(scale)
      .masked_fill(hidden_pairs(q_htd.size(1), k_hsd.size(1), window),
                   -std::numeric_limits<double>::infinity());
}

using Results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Results flash_forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& of_q,
                      const std::optional<Tensor>& of_k, int64_t most_queries, int64_t most_keys,
                      double dropout, bool causal, bool debug, std::optional<double> scale,
                      std::optional<int64_t> left, std::optional<int64_t> right, const std::optional<Tensor>&,
                      const std::optional<Tensor>&, const std::optional<Tensor>&, std::optional<int64_t>) {
  TORCH_CHECK(dropout == 0 && !debug && scale, "not emulated");
  const Sequences all(q, k, v, of_q, of_k, most_queries, most_keys);
  const Window window = window_of(causal, left, right, most_keys);
  const Tensor o = at::empty_like(q), lse = at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat));
  for (size_t n = 0; n < all.count(); ++n) {
    const int64_t begin = all.queries[n], rows = all.queries[n + 1] - begin;
    if (rows == 0) continue;
    const Tensor scores =
        scores_of(all.of_queries(q, n), all.of_keys(k, n, q.size(1)), *scale, window);  // [H, rows, keys]
    // Rows that see nothing: zeros, and infinity.
    const Tensor sum = scores.logsumexp(-1), blind = sum.isinf();
    lse.narrow(1, begin, rows).copy_(sum.masked_fill(blind, std::numeric_limits<double>::infinity()));
    const Tensor p = scores.sub(sum.masked_fill(blind, 0).unsqueeze(-1)).exp();
    o.narrow(0, begin, rows).copy_(at::matmul(p, all.of_keys(v, n, q.size(1))).transpose(0, 1));
  }
  const Tensor state = at::empty({2}, at::kLong);
  return {o, lse, state, at::empty({}, at::kLong), at::empty({0}, q.options())};
}

// Rows of documents without partners stay as they were allocated.
std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor& d_o, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& o, const Tensor& lse,
                                                  const Tensor& of_q, const Tensor& of_k,
                                                  int64_t most_queries, int64_t most_keys, double dropout,
                                                  bool causal, const Tensor&, const Tensor&,
                                                  std::optional<double> scale, std::optional<int64_t> left,
                                                  std::optional<int64_t> right) {
  TORCH_CHECK(dropout == 0 && scale, "not emulated");
  TORCH_CHECK(at::globalContext().deterministicAlgorithms(), "gradients would differ from run to run");
  const Sequences all(q, k, v, of_q, of_k, most_queries, most_keys);
  check_rows(o, "out");
  check_rows(d_o, "dout");
  TORCH_CHECK(lse.scalar_type() == at::kFloat && lse.is_contiguous() &&
                  lse.sizes() == at::IntArrayRef({q.size(1), q.size(0)}),
              "softmax_lse is [heads, rows]");
  const Window window = window_of(causal, left, right, most_keys);
  const Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  const int64_t heads = q.size(1);
  for (size_t n = 0; n < all.count(); ++n) {
    const int64_t begin = all.queries[n], rows = all.queries[n + 1] - begin, first = all.keys[n],
                  keys = all.keys[n + 1] - first;
    if (rows == 0 || keys == 0) continue;
    const Tensor q_n = all.of_queries(q, n), k_n = all.of_keys(k, n, heads), v_n = all.of_keys(v, n, heads),
                 d_o_n = all.of_queries(d_o, n);
    const Tensor p = scores_of(q_n, k_n, *scale, window)
                         .sub(lse.narrow(1, begin, rows).to(at::kDouble).unsqueeze(-1))
                         .exp();
    const Tensor delta = d_o_n.mul(all.of_queries(o, n)).sum(-1, true);
    const Tensor ds = at::matmul(d_o_n, v_n.transpose(1, 2)).sub(delta).mul(p).mul(*scale);
    const auto summed = [&](const Tensor& x_hsd) {  // over the heads of a group
      return x_hsd.view({k.size(1), heads / k.size(1), keys, q.size(2)}).sum(1).transpose(0, 1);
    };
    dq.narrow(0, begin, rows).copy_(at::matmul(ds, k_n).transpose(0, 1));
    dk.narrow(0, first, keys).copy_(summed(at::matmul(ds.transpose(1, 2), q_n)));
    dv.narrow(0, first, keys).copy_(summed(at::matmul(p.transpose(1, 2), d_o_n)));
  }
  return {dq, dk, dv};
}

}  // namespace

void break_library_calls(LibraryFault fault) { broken = fault; }

void stand_in_for_library_calls() {
  static const torch::Library library = [] {
    torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    aten.impl("mm.dtype", &mm_dtype);
    aten.impl("mm.dtype_out", &mm_dtype_out);
    aten.impl("addmm.dtype_out", &addmm_dtype_out);
    aten.impl("_flash_attention_forward", &flash_forward);
    aten.impl("_flash_attention_backward", &flash_backward);
    return aten;
  }();
}

}  // namespace longhaul::testing
