#include "kernels/embedding/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/embedding/cuda_call.h"
#include "kernels/embedding/loops.h"
#include "kernels/vector/tensors.h"
#include "tensor/device.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kGrain = 16;  // tokens

// Tokens in the order of their ids, equal ones in their own.
std::vector<int64_t> sorted_tokens(const Tensor& ids) {
  std::vector<std::pair<int64_t, int64_t>> pairs(static_cast<size_t>(ids.numel()));
  const int64_t* id = ids.const_data_ptr<int64_t>();
  for (size_t t = 0; t < pairs.size(); ++t) pairs[t] = {id[t], static_cast<int64_t>(t)};
  std::sort(pairs.begin(), pairs.end());
  std::vector<int64_t> order(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) order[i] = pairs[i].second;
  return order;
}

void add_gradient_on_cpu(const Tensor& ids, const Tensor& dy, const Tensor& sink) {
  const std::vector<int64_t> order = sorted_tokens(ids);
  const EmbeddingBackward problem{.storage = storage_of(dy),
                                  .tokens = dy.size(0),
                                  .hidden = dy.size(1),
                                  .order_t = order.data(),
                                  .ids_t = ids.const_data_ptr<int64_t>(),
                                  .dy_td = pointer_to(dy),
                                  .sink_vd = writable(sink)};
  parallel_for(0, dy.size(0), kGrain,
               [&](int64_t begin, int64_t end) { embedding_add_rows(problem, begin, end); });
}

Tensor forward_cpu(const Tensor& ids, const Tensor& table, const Tensor& positions,
                   const Tensor& position_table) {
  const Tensor out = at::empty({ids.size(0), table.size(1)}, table.options());
  const EmbeddingForward problem{
      .storage = storage_of(table),
      .hidden = table.size(1),
      .ids_t = ids.const_data_ptr<int64_t>(),
      .positions_t = positions.defined() ? positions.const_data_ptr<int64_t>() : nullptr,
      .table_vd = pointer_to(table),
      .position_table_pd = pointer_to(position_table),
      .out_td = writable(out)};
  parallel_for(0, ids.size(0), kGrain,
               [&](int64_t begin, int64_t end) { embedding_rows(problem, begin, end); });
  return out;
}

Tensor forward_aten(const Tensor& ids, const Tensor& table, const Tensor& positions,
                    const Tensor& position_table) {
  const Tensor rows = table.index_select(0, ids);
  if (!positions.defined()) return rows;
  return rows.to(wide_type(table)).add(position_table.index_select(0, positions)).to(table.scalar_type());
}

// Adds up in the order of the rows: on a GPU accumulate sorts first.
void add_gradient_aten(const Tensor& ids, const Tensor& dy, const Tensor& sink) {
  Tensor(sink).index_put_({ids}, dy.to(sink.scalar_type()), /*accumulate=*/true);
}

Tensor forward_cuda(const Tensor& ids, const Tensor& table, const Tensor& positions,
                    const Tensor& position_table) {
  const Tensor out = at::empty({ids.size(0), table.size(1)}, table.options());
  cuda_calls<EmbeddingCuda>().forward(ids, table, positions, position_table, out);
  return out;
}

Tensor forward_of(ByDevice choice, const Tensor& ids, const Tensor& table, const Tensor& positions,
                  const Tensor& position_table) {
  const auto form = choice == ByDevice::kCuda   ? forward_cuda
                    : choice == ByDevice::kAten ? forward_aten
                                                : forward_cpu;
  return form(ids, table, positions, position_table);
}

void add_gradient_of(ByDevice choice, const Tensor& ids, const Tensor& dy, const GradientSink& sink) {
  sink.add([=](const Tensor& buffer) {
    if (choice == ByDevice::kCuda)
      cuda_calls<EmbeddingCuda>().add_gradient(ids, dy, buffer);
    else if (choice == ByDevice::kAten)
      add_gradient_aten(ids, dy, buffer);
    else
      add_gradient_on_cpu(ids, dy, buffer);
  });
}

void check_table(const char* argument, const EmbeddingTable& table) {
  const Tensor& value = table.value_vd;
  if (value.dim() != 2 || !value.is_contiguous() || !at::isFloatingType(value.scalar_type()) ||
      value.scalar_type() == at::kHalf) {
    refuse_argument("embedding", argument, "[rows, hidden] in bf16, fp32 or fp64", shape_text(value));
  }
  const Tensor& sink = table.sink.buffer();
  if (!sink.defined()) return;
  if (sink.sizes() != value.sizes() || sink.scalar_type() != wide_type(value) || !sink.is_contiguous() ||
      sink.device() != value.device()) {
    refuse_argument("embedding", argument,
                    fmt::format("a sink {}×{} {}", value.size(0), value.size(1), name_of(wide_type(value))),
                    shape_text(sink));
  }
}

// The first number outside [0, rows), if any. Of meta tensors nobody knows.
std::optional<int64_t> outside(const Tensor& numbers, int64_t rows) {
  if (numbers.is_meta()) return std::nullopt;
  const Tensor all = numbers.cpu().contiguous();
  const int64_t *number = all.const_data_ptr<int64_t>(), *end = number + all.numel();
  const int64_t* found = std::find_if(number, end, [&](int64_t n) { return n < 0 || n >= rows; });
  return found == end ? std::nullopt : std::optional(*found);
}

void check_numbers(const char* argument, const Tensor& numbers) {
  if (numbers.dim() != 1 || numbers.scalar_type() != at::kLong) {
    refuse_argument("embedding", argument, "[tokens] int64", shape_text(numbers));
  }
}

Tensor apply(const Tensor& ids, const EmbeddingTable& table, const Tensor* positions,
             const EmbeddingTable* position) {
  const ByDevice choice = choose_by_device("embedding", table.value_vd, refuse_cuda(table.value_vd));
  const at::Device device = table.value_vd.device();
  const auto there = [&](const Tensor& x) {
    return x.is_cpu() ? to_device(x.contiguous(), device) : x.to(device).contiguous();
  };
  const EmbeddingTable none, &second = position != nullptr ? *position : none;
  if (choice == ByDevice::kMeta) {
    return meta_results({table.value_vd, second.value_vd},
                        {{{ids.size(0), table.value_vd.size(1)}, table.value_vd.scalar_type()}},
                        {table.sink, second.sink})[0];
  }
  return differentiable("embedding", {table.value_vd, second.value_vd}, [&]() -> Recorded {
    const Tensor rows = there(ids), position_rows = positions != nullptr ? there(*positions) : Tensor();
    return {.results = {forward_of(choice, rows, table.value_vd, position_rows, second.value_vd)},
            .saved = {rows, position_rows},
            .backward =
                [choice, sink = table.sink, position_sink = second.sink](const BackwardCall& call) {
                  const Tensor dy = call.gradients[0].contiguous();
                  add_gradient_of(choice, call.saved[0], dy, sink);
                  if (call.saved[1].defined()) add_gradient_of(choice, call.saved[1], dy, position_sink);
                  return std::vector<Tensor>(2);
                },
            .sinks = {table.sink, second.sink}};
  })[0];
}

void check_ids(const Tensor& ids, const EmbeddingTable& table, int64_t vocabulary) {
  check_table("table", table);
  check_numbers("ids", ids);
  if (const auto id = outside(ids, vocabulary)) {
    throw Error({.code = ExitCode::kData,
                 .what = "a token id lies outside the model's vocabulary",
                 .expected = fmt::format("0 to {}", vocabulary - 1),
                 .found = std::to_string(*id),
                 .hint = "use the tokenizer that the model was trained with"});
  }
}

}  // namespace

Tensor embedding(const Tensor& ids, const EmbeddingTable& table) {
  check_ids(ids, table, table.value_vd.size(0));
  return apply(ids, table, nullptr, nullptr);
}

Tensor embedding(const Tensor& ids, const EmbeddingTable& table, const Tensor& positions,
                 const EmbeddingTable& position) {
  check_ids(ids, table, table.value_vd.size(0));
  check_table("position", position);
  check_numbers("positions", positions);
  if (positions.sizes() != ids.sizes())
    refuse_argument("embedding", "positions", shape_text(ids), shape_text(positions));
  if (position.value_vd.size(1) != table.value_vd.size(1) ||
      position.value_vd.scalar_type() != table.value_vd.scalar_type() ||
      position.value_vd.device() != table.value_vd.device()) {
    refuse_argument("embedding", "position",
                    "the hidden size, dtype and device of the table, " + shape_text(table.value_vd),
                    shape_text(position.value_vd));
  }
  if (const auto beyond = outside(positions, position.value_vd.size(0))) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a sequence is longer than the model's positions",
                 .expected = fmt::format("at most {} tokens", position.value_vd.size(0)),
                 .found = fmt::format("position {}", *beyond),
                 .where = "model.max_positions",
                 .hint = "shorten the input, or use a model with rotary positions"});
  }
  return apply(ids, table, &positions, &position);
}

Tensor embedding_of_share(const Tensor& ids, const EmbeddingTable& share, int64_t first_row,
                          int64_t vocabulary) {
  if (share.value_vd.is_meta()) return embedding(ids, share);
  check_ids(ids, share, vocabulary);
  const Tensor here =
      ids.ge(first_row).logical_and(ids.lt(first_row + share.value_vd.size(0))).nonzero().squeeze(1);
  const Tensor mine = embedding(ids.index_select(0, here).sub(first_row), share),
               places = here.is_cpu() ? to_device(here, mine.device()) : here;
  // Not LibTorch's own: for its backward pass that keeps the rows, as large as hidden states, for their
  // shape.
  return differentiable("embedding of a share", {mine}, [&]() -> Recorded {
    return {.results = {at::zeros({ids.size(0), mine.size(1)}, mine.options().requires_grad(false))
                            .index_copy_(0, places, mine)},
            .saved = {places},
            .backward = [](const BackwardCall& call) {
              return std::vector<Tensor>{call.gradients[0].index_select(0, call.saved[0])};
            }};
  })[0];
}

}  // namespace longhaul::kernels
