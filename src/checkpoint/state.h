// Training state as a checkpoint sees it: a list of providers (the optimizer with the weights, the trainer's counters, a task, later outer
// loops and replay buffers), each with tensors and with facts, which are whatever is no tensor.
//
// A tensor is a rectangle that this rank holds of a logical tensor. Its name is its name in the checkpoint, unique among all providers; of the
// ranks that hold the same rectangle one says that it is written there, and all that are written make up the whole tensor exactly. Roles
// tell readers apart what they are for: "weight", "optimizer.m", "task".
//
// Facts are members of the manifest's `state` under keys of the provider's own. They are the same on every rank: rank 0's are saved, and
// all ranks get them back. What differs from rank to rank is a tensor.
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
  std::string file;  // kind of file it is kept in: "model", "optimizer", "task"; see file_name()
  std::string role;
  layout::Shape shape;  // global, at least one dimension
  layout::Rectangle held;
  Tensor view;  // shaped like `held`, any strides; a save copies it, a load writes it
  bool written_here = true;

  bool to_write() const { return written_here && !held.empty(); }
};

// The facts of a checkpoint, with what an error says of where they come from.
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

std::vector<StateEntry> tensors_of(Providers providers);  // of all of them, in their order
nlohmann::json facts_of(Providers providers);             // merged; a key that two of them have is a bug

}  // namespace longhaul::checkpoint
