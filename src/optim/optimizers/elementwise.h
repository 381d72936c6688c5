// Elementwise: the base of optimizers that work element by element (AdamW, SGD, Lion, LAMB). They walk
// contiguous runs of the storages (Piece): neighbouring tensors that are treated alike form one run, so all
// experts of a layer are a single run. On a CPU, threads share all elements evenly, and weights of which
// matrix products keep packed copies are packed again while they are in the cache; elements are independent
// of each other, so the way they are divided changes no result. One pass over memory does everything:
// update() of the derived class reads the gradient, sets it to zero, and writes states, master and working
// copy.
//
// States have the precision of the masters, or are narrow (narrow_state.h). A narrow tensor is a piece of
// its own, and a stretch of it consists of whole rows, whose blocks are widened, updated and narrowed one
// after the other while they are in the cache. A frozen part of a value that trains has states that stay
// zero, and its gradient becomes zero.
#pragma once

#include <string>
#include <vector>

#include "kernels/optimizer_loops/loops.h"
#include "optim/optimizer.h"
#include "optim/optimizers/narrow_state.h"
#include "recipe/optimizers/entry.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::optim {

class Elementwise : public Optimizer {
 public:
  std::vector<StateTensor> state() override;

 protected:
  struct Piece {  // a run of elements of this rank's share of one parameter
    size_t parameter = 0;
    int64_t begin = 0, length = 0;
    double weight_decay = 0, lr_factor = 1;
    bool trainable = true;
    int64_t columns = 1;                // of its matrix, or 1
    recipe::StateFormats formats{};     // narrow: the piece is one tensor
    std::vector<Tensor> states{};       // [length] each; undefined where it is narrow
    std::vector<NarrowState> narrow{};  // as many as states, or none
    bool like(const Piece& other) const {
      return !formats.narrow() && !other.formats.narrow() && parameter == other.parameter &&
             weight_decay == other.weight_decay && lr_factor == other.lr_factor &&
             trainable == other.trainable;
    }
  };
  struct Stretch {  // the part of a piece that one thread processes at a time
    const Piece* piece = nullptr;
    int64_t begin = 0, length = 0;  // elements of that share
    bool packs = false;             // it consists of whole rows, which are packed again
  };
  enum class Runs { kOfNeighbours, kOfEachTensor };

  // The states are those of the optimizer's entry (recipe/optimizers), in its order. kUsage when the dtypes
  // have no implementation: master, states and main gradient must have the same dtype (fp32 or fp64), and the
  // working copy has that dtype too, or bf16 with an fp32 master.
  Elementwise(Members members, const recipe::OptimOptions& options, Runs runs = Runs::kOfNeighbours);

  const recipe::OptimOptions& options() const { return options_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  bool on_cpu() const { return on_cpu_; }
  // Calls update(stretch) for all of them, on all threads.
  using Update = std::function<void(const Stretch& stretch)>;
  void run(const std::vector<Stretch>& stretches, const Update& update);
  // The same for everything that trains, when update writes the weights: afterwards packed copies are
  // renewed, and gradients of frozen parts become zero.
  void write(const StepSettings& settings, const Update& update);
  std::vector<Stretch> stretches(bool packing) const;  // of everything that trains
  // Calls body(run, loops) with a stretch for kernels/updates, in its precision. When states are narrow, it
  // makes one call for each block of the stretch; States::kWritten says that body writes states, which are
  // then kept.
  enum class States { kWritten, kRead };
  template <class Body>
  void with_run(const Stretch& stretch, States states, const Body& body) {
    const auto in = [&](auto real) {
      using Real = decltype(real);
      const auto call = [&](const kernels::UpdateRun<Real>& run) {
        body(run, kernels::update_loops<Real>());
      };
      if (stretch.piece->formats.narrow())
        narrow_runs<Real>(stretch, states, call);
      else
        call(run_of<Real>(stretch));
    };
    if (in_fp64(*stretch.piece))
      in(double{});
    else
      in(float{});
  }
  // For LibTorch's operations on any device: master, gradient and states of a piece, each [length].
  struct Views {
    Tensor master, gradient;
    std::vector<Tensor> states;
  };
  Views views_of(const Piece& piece);
  // After update has written masters: refreshes working copies and gradients.
  void refresh(const Piece& piece, const StepSettings& settings);
  template <class Real>
  Real* state_at(const Stretch& stretch, size_t state) const {
    const std::vector<Tensor>& states = stretch.piece->states;
    return state < states.size() && states[state].defined()
               ? static_cast<Real*>(states[state].data_ptr()) + (stretch.begin - stretch.piece->begin)
               : nullptr;
  }
  bool in_fp64(const Piece& piece) { return master(piece.parameter).scalar_type() == at::kDouble; }

 private:
  recipe::StateFormats formats_of(const layout::ParameterSpec& spec) const;
  void list_pieces(Runs runs);
  bool packs(const Piece& piece) const;
  void add_stretches(const Piece& piece, bool packing, std::vector<Stretch>& to) const;
  template <class Real>
  kernels::UpdateRun<Real> run_of(const Stretch& stretch) {
    const model::Parameter& parameter = *parameters()[stretch.piece->parameter];
    const auto at = [&](const Tensor& storage) {
      return static_cast<Real*>(storage.data_ptr()) + stretch.begin;
    };
    const bool copied = parameter.value.scalar_type() == at::kBFloat16;
    return {
        .master = at(master(stretch.piece->parameter)),
        .gradient = at(parameter.own_grad),
        .first = state_at<Real>(stretch, 0),
        .second = state_at<Real>(stretch, 1),
        .value = copied ? static_cast<uint16_t*>(parameter.own_value.data_ptr()) + stretch.begin : nullptr,
        .count = stretch.length};
  }
  template <class Real, class Call>
  void narrow_runs(const Stretch& stretch, States states, const Call& call) {
    const Piece& piece = *stretch.piece;
    const kernels::UpdateRun<Real> all = run_of<Real>(stretch);
    const int64_t first = (stretch.begin - piece.begin) / piece.columns,
                  rows = stretch.length / piece.columns;
    const NarrowState& blocks = piece.narrow[0].defined() ? piece.narrow[0] : piece.narrow[1];
    Real wide[2][kernels::kMostNarrow];
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < piece.columns;) {
        const int64_t count = blocks.run_from(column);
        kernels::UpdateRun<Real> run = all.from(row * piece.columns + column, count);
        Real** const states_of_run[] = {&run.first, &run.second};
        for (size_t k = 0; k < piece.narrow.size(); ++k) {
          if (!piece.narrow[k].defined()) continue;
          piece.narrow[k].read(first + row, column, count, wide[k]);
          *states_of_run[k] = wide[k];
        }
        call(run);
        for (size_t k = 0; k < piece.narrow.size(); ++k) {
          if (states == States::kWritten && piece.narrow[k].defined())
            piece.narrow[k].keep(next_step(), first + row, column, count, wide[k]);
        }
        column += count;
      }
    }
  }
  void make_states(Piece& piece, size_t part) const;
  void pack_rows(const Stretch& stretch);
  void append_state(std::vector<StateTensor>& to, size_t parameter, size_t part, size_t kind) const;

  recipe::OptimOptions options_;
  std::vector<recipe::OptimizerState> states_;
  std::vector<Piece> pieces_;
  bool on_cpu_ = true;
};

}  // namespace longhaul::optim
