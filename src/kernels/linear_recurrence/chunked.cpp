// The chunked form (linear-attention.md §2, minimax-01.md §2.3) as batched matrix products. A chunk never straddles documents;
// short chunks are padded with zero keys, which neither write to the state nor show in the scores. With local positions
// i = 1 … m of a chunk, incoming state S and γ = log_decay of the head (every exponent below is ≤ 0):
//
//   O      = scale · [ (Q ⊙ e^{γi}) S + A V ],  A = (Q Kᵀ) ∘ M,  M_ij = e^{γ(i−j)} for j ≤ i, else 0
//   S_next = e^{γm} S + (K ⊙ e^{γ(m−j)})ᵀ V
#include <cmath>

#include "base/parallel.h"
#include "kernels/linear_recurrence/problem.h"

namespace longhaul::kernels {
namespace {

constexpr double kSmallestChunkLog = -800;  // e^−800 is 0 in fp64 too; −∞ · 0 would be NaN

struct Chunk {
  int64_t document, length;
  bool first, last;  // of its document
};

// Which token stands at which place of which chunk; the same for every tensor of the problem.
struct ChunkTable {
  std::vector<Chunk> chunks;
  int64_t width = 0;  // padded chunk length
  Tensor gather;      // [chunks · width] token of each place, 0 where padded; undefined when it is the identity
  Tensor scatter;     // [tokens] place of each token
  Tensor valid_cb11;  // [chunks, width, 1, 1] 1 for real tokens; undefined when all are
  Tensor lengths;     // [chunks]
};

ChunkTable chunk_table(const RecurrenceProblem& problem) {
  ChunkTable table;
  int64_t longest = 0;
  for (int64_t n = 0; n < problem.documents(); ++n) {
    longest = std::max(longest, problem.offsets[static_cast<size_t>(n) + 1] - problem.offsets[static_cast<size_t>(n)]);
  }
  table.width = std::max<int64_t>(1, std::min(problem.options.chunk, longest));
  std::vector<int64_t> gather, scatter(static_cast<size_t>(problem.tokens())), lengths;
  bool identity = true;
  for (int64_t n = 0; n < problem.documents(); ++n) {
    const int64_t begin = problem.offsets[static_cast<size_t>(n)], length = problem.offsets[static_cast<size_t>(n) + 1] - begin;
    for (int64_t start = 0; start < length; start += table.width) {
      const int64_t m = std::min(table.width, length - start);
      table.chunks.push_back({n, m, start == 0, start + m == length});
      lengths.push_back(m);
      for (int64_t i = 0; i < table.width; ++i) {
        const int64_t place = static_cast<int64_t>(gather.size());
        if (i >= m) {
          gather.push_back(0);
          identity = false;
          continue;
        }
        const int64_t token = problem.options.reverse ? begin + length - 1 - start - i : begin + start + i;
        identity = identity && token == place;
        scatter[static_cast<size_t>(token)] = place;
        gather.push_back(token);
      }
    }
  }
  table.lengths = at::tensor(lengths, at::kLong);
  if (identity) return table;
  table.gather = at::tensor(gather, at::kLong);
  table.scatter = at::tensor(scatter, at::kLong);
  table.valid_cb11 = at::arange(table.width).unsqueeze(0).lt(table.lengths.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
  return table;
}

// The pieces both directions need, batched over [chunks, heads].
struct Chunked {
  Tensor q, k, v;         // [C, H, B, D] in the state's dtype, padded keys zero
  Tensor decay_q_hb1;     // e^{γi}
  Tensor decay_k_chb1;    // e^{γ(m−j)}
  Tensor mask_hbb;        // M
  Tensor decay_chunk_ch;  // e^{γm}, contiguous
};

Tensor to_chunks(const ChunkTable& table, const Tensor& x_thd, ScalarType type, int64_t repeat, bool zero_padding) {
  Tensor x = table.gather.defined() ? x_thd.index_select(0, table.gather) : x_thd;
  x = x.view({static_cast<int64_t>(table.chunks.size()), table.width, x_thd.size(1), x_thd.size(2)}).to(type);
  if (zero_padding && table.valid_cb11.defined()) x = x.masked_fill(table.valid_cb11.logical_not(), 0);
  if (repeat > 1) x = x.repeat_interleave(repeat, 2);
  return x.transpose(1, 2).contiguous();
}

Tensor from_chunks(const ChunkTable& table, const Tensor& x_chbd, int64_t repeat, ScalarType type) {
  Tensor x = x_chbd.transpose(1, 2);  // [C, B, H, D]
  if (repeat > 1) x = x.reshape({x.size(0), x.size(1), x.size(2) / repeat, repeat, x.size(3)}).sum(3);
  x = x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)});
  if (table.scatter.defined()) x = x.index_select(0, table.scatter);
  return x.to(type);
}

Chunked prepare(const RecurrenceProblem& problem, const ChunkTable& table) {
  const ScalarType type = problem.state_type();
  const int64_t heads = problem.heads();
  Chunked parts;
  parts.q = to_chunks(table, problem.q_thk.contiguous(), type, 1, false);
  parts.k = to_chunks(table, problem.k_thk.contiguous(), type, problem.group(), true);
  parts.v = to_chunks(table, problem.v_thv.contiguous(), type, problem.group(), true);
  const Tensor gamma = problem.decay == DecayKind::kHead ? problem.log_decay.detach().to(type).clamp_min(kSmallestChunkLog)
                                                         : at::zeros({heads}, parts.q.options());
  const Tensor i = at::arange(1, table.width + 1, parts.q.options());
  parts.decay_q_hb1 = gamma.view({heads, 1}).mul(i.view({1, -1})).exp().unsqueeze(2);
  const Tensor remaining = (table.lengths.to(type).unsqueeze(1) - i.unsqueeze(0)).clamp_min(0);  // [C, B]; padded keys are zero anyway
  parts.decay_k_chb1 = gamma.view({1, heads, 1}).mul(remaining.unsqueeze(1)).exp().unsqueeze(3);
  const Tensor distance = i.unsqueeze(1) - i.unsqueeze(0);  // [B, B]
  // Masked before the exponential: e^{+large}·0 would be NaN.
  parts.mask_hbb = gamma.view({heads, 1, 1}).mul(distance.clamp_min(0)).exp().mul(distance.ge(0));
  parts.decay_chunk_ch = table.lengths.to(type).unsqueeze(1).mul(gamma.unsqueeze(0)).exp().contiguous();
  return parts;
}

// increments [C, H, K·V] → the state entering each chunk, and the final state of each document.
template <class Real>
void scan_states(const ChunkTable& table, const Tensor& decay_ch, const Tensor& increments, Tensor& entering, Tensor& final_state) {
  const int64_t heads = decay_ch.size(1), area = increments.size(2) * increments.size(3);
  const Real* decay = decay_ch.const_data_ptr<Real>();
  const Real* add = increments.const_data_ptr<Real>();
  Real* in = entering.mutable_data_ptr<Real>();
  Real* out = final_state.mutable_data_ptr<Real>();
  parallel_for(0, heads, 1, [&](int64_t begin, int64_t end) {
    for (size_t c = 0; c < table.chunks.size(); ++c) {
      for (int64_t h = begin; h < end; ++h) {
        const int64_t at = (static_cast<int64_t>(c) * heads + h);
        Real* state = out + (table.chunks[c].document * heads + h) * area;  // holds the initial state first
        std::copy_n(state, area, in + at * area);
        for (int64_t i = 0; i < area; ++i) state[i] = decay[at] * state[i] + add[at * area + i];
      }
    }
  });
}

// The mirror: increments are scale · (Q ⊙ e^{γi})ᵀ dO; `d_state` holds the final states' gradients first and ends as the initial states'.
template <class Real>
void scan_gradients(const ChunkTable& table, const Tensor& decay_ch, const Tensor& increments, Tensor& leaving, Tensor& d_state) {
  const int64_t heads = decay_ch.size(1), area = increments.size(2) * increments.size(3);
  const Real* decay = decay_ch.const_data_ptr<Real>();
  const Real* add = increments.const_data_ptr<Real>();
  Real* out = leaving.mutable_data_ptr<Real>();
  Real* states = d_state.mutable_data_ptr<Real>();
  parallel_for(0, heads, 1, [&](int64_t begin, int64_t end) {
    for (size_t c = table.chunks.size(); c-- > 0;) {
      for (int64_t h = begin; h < end; ++h) {
        const int64_t at = (static_cast<int64_t>(c) * heads + h);
        Real* state = states + (table.chunks[c].document * heads + h) * area;
        std::copy_n(state, area, out + at * area);
        for (int64_t i = 0; i < area; ++i) state[i] = decay[at] * state[i] + add[at * area + i];
      }
    }
  });
}

Tensor state_like(const RecurrenceProblem& problem, const Tensor& given) {
  if (given.defined()) return given.to(problem.state_type()).clone(at::MemoryFormat::Contiguous);
  return at::zeros({problem.documents(), problem.heads(), problem.q_thk.size(2), problem.v_thv.size(2)},
                   problem.q_thk.options().dtype(problem.state_type()));
}

struct States {
  Tensor entering_chkv, final_nhkv;
};

States states_of(const RecurrenceProblem& problem, const ChunkTable& table, const Chunked& parts) {
  const Tensor increments = at::matmul(parts.k.mul(parts.decay_k_chb1).transpose(2, 3), parts.v).contiguous();
  States states{at::empty_like(increments), state_like(problem, problem.initial_state_nhkv)};
  if (problem.state_type() == at::kDouble) {
    scan_states<double>(table, parts.decay_chunk_ch, increments, states.entering_chkv, states.final_nhkv);
  } else {
    scan_states<float>(table, parts.decay_chunk_ch, increments, states.entering_chkv, states.final_nhkv);
  }
  return states;
}

Tensor empty_output(const RecurrenceProblem& problem) {
  return at::empty({0, problem.heads(), problem.v_thv.size(2)}, problem.v_thv.options());
}

}  // namespace

LinearRecurrenceResult recurrence_forward_chunked(const RecurrenceProblem& problem) {
  if (problem.tokens() == 0) return {empty_output(problem), state_like(problem, problem.initial_state_nhkv)};
  const ChunkTable table = chunk_table(problem);
  const Chunked parts = prepare(problem, table);
  const States states = states_of(problem, table, parts);
  Tensor o = at::matmul(at::matmul(parts.q, parts.k.transpose(2, 3)).mul_(parts.mask_hbb), parts.v);
  o.add_(at::matmul(parts.q.mul(parts.decay_q_hb1), states.entering_chkv)).mul_(problem.options.scale);
  return {from_chunks(table, o, 1, problem.v_thv.scalar_type()), states.final_nhkv};
}

RecurrenceGradients recurrence_backward_chunked(const RecurrenceProblem& problem, const Tensor& d_o_thd, const Tensor& d_final_nhkv) {
  if (problem.tokens() == 0) {
    return {at::zeros_like(problem.q_thk), at::zeros_like(problem.k_thk), at::zeros_like(problem.v_thv), Tensor(),
            state_like(problem, d_final_nhkv)};
  }
  const ChunkTable table = chunk_table(problem);
  const Chunked parts = prepare(problem, table);
  const States states = states_of(problem, table, parts);
  const Tensor d_o = to_chunks(table, d_o_thd.contiguous(), problem.state_type(), 1, true).mul_(problem.options.scale);
  const Tensor q_decayed = parts.q.mul(parts.decay_q_hb1), k_decayed = parts.k.mul(parts.decay_k_chb1);

  const Tensor increments = at::matmul(q_decayed.transpose(2, 3), d_o).contiguous();
  Tensor leaving = at::empty_like(increments), d_state = state_like(problem, d_final_nhkv);
  if (problem.state_type() == at::kDouble) {
    scan_gradients<double>(table, parts.decay_chunk_ch, increments, leaving, d_state);
  } else {
    scan_gradients<float>(table, parts.decay_chunk_ch, increments, leaving, d_state);
  }

  const Tensor p = at::matmul(d_o, parts.v.transpose(2, 3)).mul_(parts.mask_hbb);
  Tensor d_q = at::matmul(d_o, states.entering_chkv.transpose(2, 3)).mul_(parts.decay_q_hb1).add_(at::matmul(p, parts.k));
  Tensor d_k = at::matmul(parts.v, leaving.transpose(2, 3)).mul_(parts.decay_k_chb1).add_(at::matmul(p.transpose(2, 3), parts.q));
  const Tensor a = at::matmul(parts.q, parts.k.transpose(2, 3)).mul_(parts.mask_hbb);
  Tensor d_v = at::matmul(k_decayed, leaving).add_(at::matmul(a.transpose(2, 3), d_o));
  return {from_chunks(table, d_q, 1, problem.q_thk.scalar_type()), from_chunks(table, d_k, problem.group(), problem.k_thk.scalar_type()),
          from_chunks(table, d_v, problem.group(), problem.v_thv.scalar_type()), Tensor(), d_state};
}

}  // namespace longhaul::kernels
