// Training state as a checkpoint sees it: a list of providers (the optimizer with the weights, the
// trainer's counters, a task; later outer loops and replay buffers). Each provider has tensors and facts;
// facts are all state that is not a tensor.
//
// A tensor entry is a rectangle of a logical tensor that this rank holds. Its name is its name in the
// checkpoint, unique among all providers. Of the ranks that hold the same rectangle, one is marked as its
// writer, and all written rectangles together make up the whole tensor exactly. The role tells readers what
// a tensor is for: "weight", "optimizer.m", "task".
//
// Facts are members of the manifest's `state` under keys of the provider's own. They are the same on every
// rank: rank 0's facts are saved, and all ranks get them back. State that differs from rank to rank must be
// a tensor.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "layout/rectangle.h"
#include "tensor/tensor.h"

namespace longhaul::checkpoint {

struct StateEntry {
  std::string name;
  std::string file;  // the kind of file that holds it: "model", "optimizer", "task"; see file_name()
  std::string role;
  layout::Shape shape;  // global, at least one dimension
  layout::Rectangle held;
  Tensor view;  // shaped like `held`, any strides; a save copies it, a load writes it
  bool written_here = true;

  bool to_write() const { return written_here && !held.empty(); }
};

// The facts of a checkpoint, and where they come from (`where`, for errors).
struct SavedFacts {
  const nlohmann::json& state;
  std::string where;

  const nlohmann::json& at(const std::string& key) const;  // kCheckpoint when it is missing
  int64_t whole_number(const std::string& key) const;      // likewise, and when it is something else
};

class StateProvider {
 public:
  virtual ~StateProvider() = default;
  virtual std::vector<StateEntry> tensors() { return {}; }
  virtual nlohmann::json facts() { return nlohmann::json::object(); }
  virtual void restore(const SavedFacts&) {}  // after its tensors have been read
};

using Providers = std::span<StateProvider* const>;

// The tensors of all providers, in the order of providers.
std::vector<StateEntry> tensors_of(Providers providers);
// The facts of all providers, merged; a key that two of them have is a bug.
nlohmann::json facts_of(Providers providers);

}  // namespace longhaul::checkpoint
