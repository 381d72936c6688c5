#include "model/outside/embedded_rows.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& expected, const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = what,
               .expected = expected,
               .found = found,
               .where = "model/outside/embedded_rows.h",
               .hint = "the task names the tokens that get rows from outside, and makes the rows"});
}

void require_rows(const EmbeddedRows& from, int64_t hidden, at::TensorOptions like) {
  const Tensor& rows = from.rows_nd;
  const auto type = like.dtype().toScalarType();
  if (rows.defined() && rows.dim() == 2 && rows.size(0) == std::ssize(from.tokens) &&
      rows.size(1) == hidden && rows.scalar_type() == type && rows.device() == like.device())
    return;
  refuse("rows from outside do not fit the embedding",
         fmt::format("[{}, {}] {} on {}", from.tokens.size(), hidden, name_of(type), like.device().str()),
         rows.defined() ? fmt::format("{} on {}", kernels::shape_text(rows), rows.device().str())
                        : std::string("nothing"));
}

// For each token of the packed row the row that takes its place; −1: none.
std::vector<int64_t> rows_of_tokens(const std::vector<int64_t>& named, int64_t tokens) {
  std::vector<int64_t> row_of(static_cast<size_t>(tokens), -1);
  for (size_t i = 0; i < named.size(); ++i) {
    const int64_t token = named[i];
    if (token < 0 || token >= tokens) {
      refuse("a row from outside has no token", fmt::format("tokens 0 to {}", tokens - 1),
             fmt::format("token {}", token));
    }
    int64_t& row = row_of[static_cast<size_t>(token)];
    if (row >= 0)
      refuse("a token has two rows from outside", "every token once", fmt::format("token {} twice", token));
    row = static_cast<int64_t>(i);
  }
  return row_of;
}

}  // namespace

EmbeddedRows EmbeddedRows::ahead(const layout::SequenceLayout& layout, int64_t places) const {
  EmbeddedRows moved;
  std::vector<int64_t> which;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t reader = tokens[i] - places;
    if (reader < layout.document(layout.document_of(tokens[i])).begin) continue;
    moved.tokens.push_back(reader);
    which.push_back(static_cast<int64_t>(i));
  }
  moved.rows_nd = rows_nd.index_select(0, to_tensor(which, rows_nd.device()));
  return moved;
}

RowPlaces::RowPlaces(const EmbeddedRows& from, const layout::SequenceView& view, int64_t hidden,
                     at::TensorOptions like)
    : view_(view), rows_nd_(from.rows_nd) {
  require_rows(from, hidden, like);
  const std::vector<int64_t> row_of = rows_of_tokens(from.tokens, view.layout.tokens());
  for (int64_t i = 0; i < view.tokens(); ++i) {
    const int64_t row = row_of[static_cast<size_t>(view.token_index[static_cast<size_t>(i)])];
    if (row < 0) continue;
    here_.push_back(i);
    if (i < view.own.begin || i >= view.own.end()) continue;
    own_.push_back(i - view.own.begin);
    which_.push_back(row);
  }
}

Tensor RowPlaces::without(const Tensor& ids) const {
  return ids.index_fill(0, to_tensor(here_, ids.device()), 0);
}

Tensor RowPlaces::placed(const Tensor& hidden, const kernels::EmbeddingTable* positions) const {
  const Tensor own = to_tensor(own_, hidden.device()), which = to_tensor(which_, hidden.device());
  Tensor rows = rows_nd_;
  if (positions != nullptr) {
    std::vector<int64_t> numbers;
    for (const int64_t i : own_)
      numbers.push_back(view_.positions_of_axis(0)[static_cast<size_t>(view_.own.begin + i)]);
    rows = rows.index_select(0, which) + kernels::embedding(to_tensor(numbers), *positions);
  }
  const Tensor from = positions != nullptr ? at::arange(own.size(0), own.options()) : which;
  // LibTorch's own form would keep the rows for their shape.
  return kernels::differentiable("embedded rows", {hidden, rows}, [&]() -> kernels::Recorded {
    return {
        .results = {hidden.index_copy(0, own, rows.index_select(0, from))},
        .saved = {own, from},
        .backward = [count = rows.size(0)](const kernels::BackwardCall& call) {
          const Tensor& d = call.gradients[0];
          const Tensor d_rows = call.wanted[1]
                                    ? at::zeros({count, d.size(1)}, d.options())
                                          .index_copy_(0, call.saved[1], d.index_select(0, call.saved[0]))
                                    : Tensor();
          return std::vector<Tensor>{call.wanted[0] ? d.index_fill(0, call.saved[0], 0) : Tensor(), d_rows};
        }};
  })[0];
}

}  // namespace longhaul::model
