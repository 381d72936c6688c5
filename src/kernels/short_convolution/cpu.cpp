#include "kernels/short_convolution/cpu.h"

#include <algorithm>
#include <array>

#include "base/threads/parallel.h"
#include "kernels/short_convolution/loops.h"
#include "kernels/vector/row_blocks.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

using ConvolutionTaps = std::array<const void*, kMostConvolutionTaps>;

ShortConvolution convolution_loops(const ConvolutionProblem& problem) {
  return {.storage = storage_of(problem.x_tc),
          .channels = problem.channels(),
          .width = problem.width(),
          .weight_wc = pointer_to(problem.weight_wc),
          .bias_c = pointer_to(problem.bias_c),
          .silu = problem.options.silu};
}

// Rows of a tensor [rows, C] or, of states, [documents · (W−1), C].
struct RowPointers {
  std::byte* data = nullptr;
  int64_t stride_bytes = 0;
  static RowPointers of(const Tensor& x) {
    if (!x.defined() || x.numel() == 0) return {};
    return {static_cast<std::byte*>(const_cast<void*>(x.const_data_ptr())),
            x.stride(x.dim() - 2) * x.element_size()};  // NOLINT
  }
  std::byte* row(int64_t i) const { return data == nullptr ? nullptr : data + i * stride_bytes; }
};

// Where the inputs of a document lie: position −(W−1) … −1 in its state, from 0 on in x.
struct DocumentRows {
  RowPointers x, states;
  int64_t begin, document, history;
  std::byte* at(int64_t position) const {
    return position >= 0 ? x.row(begin + position) : states.row(document * history + history + position);
  }
};

int64_t document_at(const std::vector<int64_t>& offsets, int64_t token) {
  return std::upper_bound(offsets.begin(), offsets.end(), token) - offsets.begin() - 1;
}

// body(token, taps) of tokens [begin, end): their W inputs each.
template <class Body>
void for_convolved_tokens(const ConvolutionProblem& problem, int64_t begin, int64_t end, const Body& body) {
  const int64_t history = problem.width() - 1;
  DocumentRows rows{RowPointers::of(problem.x_tc), RowPointers::of(problem.initial_state_nwc), 0, 0, history};
  ConvolutionTaps taps{};
  for (int64_t t = begin; t < end;) {
    rows.document = document_at(problem.offsets, t);
    rows.begin = problem.offsets[static_cast<size_t>(rows.document)];
    const int64_t stop = std::min(end, problem.offsets[static_cast<size_t>(rows.document) + 1]);
    for (; t < stop; ++t) {
      for (int64_t j = 0; j <= history; ++j)
        taps[static_cast<size_t>(j)] = rows.at(t - rows.begin - history + j);
      body(t, taps.data());
    }
  }
}

int64_t convolution_grain(const ConvolutionProblem& problem) {
  return std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, problem.channels() * problem.width()));
}

// The last W−1 inputs of every document.
Tensor final_inputs(const ConvolutionProblem& problem) {
  const int64_t history = problem.width() - 1;
  const Tensor state = at::zeros({problem.documents(), history, problem.channels()},
                                 problem.x_tc.options().requires_grad(false));
  for (int64_t n = 0; n < problem.documents(); ++n) {
    const int64_t begin = problem.offsets[static_cast<size_t>(n)],
                  length = problem.offsets[static_cast<size_t>(n) + 1] - begin;
    const int64_t own = std::min(history, length), old = history - own;
    if (own > 0) state[n].narrow(0, old, own).copy_(problem.x_tc.narrow(0, begin + length - own, own));
    if (old > 0 && problem.initial_state_nwc.defined())
      state[n].narrow(0, 0, old).copy_(problem.initial_state_nwc[n].narrow(0, own, old));
  }
  return state;
}

struct ConvolutionSums {
  Tensor weight_bwc, bias_bc;  // of each block of rows
};

// dz of every token, and the sums of the weight's and the bias' gradients.
Tensor convolution_slopes(const ConvolutionProblem& problem, const Tensor& dy, ConvolutionSums& sums) {
  const ShortConvolution loops = convolution_loops(problem);
  const int64_t tokens = problem.x_tc.size(0), channels = problem.channels();
  const at::TensorOptions wide = problem.weight_wc.options().requires_grad(false);
  const Tensor dz = at::empty({tokens, channels}, wide);
  const RowBlocks blocks = row_blocks(tokens);
  sums.weight_bwc = at::zeros({blocks.count, problem.width() * channels}, wide);
  if (problem.bias_c.defined()) sums.bias_bc = at::zeros({blocks.count, channels}, wide);
  const RowPointers from = RowPointers::of(dy), to = RowPointers::of(dz);
  parallel_for(0, blocks.count, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      void *const d_weight = writable_row(sums.weight_bwc, b), *const d_bias = writable_row(sums.bias_bc, b);
      for_convolved_tokens(problem, blocks.begin(b), blocks.end(b), [&](int64_t t, const void* const* taps) {
        convolution_slope_row(loops, taps, from.row(t), to.row(t), d_weight, d_bias);
      });
    }
  });
  return dz;
}

// The gradient of what stands at `position` of document n: of the tokens that read it, and of the final state
// where it is still there.
void input_gradient(const ConvolutionProblem& problem, const ShortConvolution& loops, const Tensor& dz,
                    const Tensor& d_final, int64_t n, int64_t position, void* dx) {
  const int64_t history = problem.width() - 1, begin = problem.offsets[static_cast<size_t>(n)];
  const int64_t length = problem.offsets[static_cast<size_t>(n) + 1] - begin;
  const RowPointers slope = RowPointers::of(dz), left = RowPointers::of(d_final);
  ConvolutionTaps taps{};
  for (int64_t j = 0; j <= history; ++j) {
    const int64_t reader = position + history - j;
    taps[static_cast<size_t>(j)] = reader >= 0 && reader < length ? slope.row(begin + reader) : nullptr;
  }
  const int64_t kept = position - (length - history);  // which row of the final state it is
  convolution_input_row(loops, taps.data(),
                        kept >= 0 && kept < history ? left.row(n * history + kept) : nullptr, dx);
}

}  // namespace

ShortConvolutionResult convolution_forward_cpu(const ConvolutionProblem& problem) {
  const ShortConvolution loops = convolution_loops(problem);
  const Tensor y =
      at::empty({problem.x_tc.size(0), problem.channels()}, problem.x_tc.options().requires_grad(false));
  const RowPointers to = RowPointers::of(y);
  parallel_for(0, y.size(0), convolution_grain(problem), [&](int64_t begin, int64_t end) {
    for_convolved_tokens(problem, begin, end,
                         [&](int64_t t, const void* const* taps) { convolve_row(loops, taps, to.row(t)); });
  });
  return {y, final_inputs(problem)};
}

ConvolutionGradients convolution_backward_cpu(const ConvolutionProblem& problem, const Tensor& dy,
                                              const Tensor& d_final_any) {
  ConvolutionSums sums;
  const Tensor dz = convolution_slopes(problem, dy, sums),
               d_final = d_final_any.defined() ? d_final_any.contiguous() : d_final_any;
  const ShortConvolution loops = convolution_loops(problem);
  const int64_t tokens = problem.x_tc.size(0), channels = problem.channels(), history = problem.width() - 1;
  ConvolutionGradients gradients{
      .x_tc = at::empty({tokens, channels}, problem.x_tc.options().requires_grad(false))};
  const RowPointers to = RowPointers::of(gradients.x_tc);
  parallel_for(0, tokens, convolution_grain(problem), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t n = document_at(problem.offsets, t);
      input_gradient(problem, loops, dz, d_final, n, t - problem.offsets[static_cast<size_t>(n)], to.row(t));
    }
  });
  if (problem.initial_state_nwc.defined()) {
    gradients.initial_state_nwc =
        at::empty(problem.initial_state_nwc.sizes(), problem.x_tc.options().requires_grad(false));
    const RowPointers states = RowPointers::of(gradients.initial_state_nwc);
    for (int64_t n = 0; n < problem.documents(); ++n) {
      for (int64_t i = 0; i < history; ++i)
        input_gradient(problem, loops, dz, d_final, n, i - history, states.row(n * history + i));
    }
  }
  gradients.weight_wc = sum_of_blocks(sums.weight_bwc).view({problem.width(), channels});
  if (problem.bias_c.defined()) gradients.bias_c = sum_of_blocks(sums.bias_bc);
  return gradients;
}

}  // namespace longhaul::kernels
