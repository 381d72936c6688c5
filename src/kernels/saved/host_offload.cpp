#include "kernels/saved/host_offload.h"

#include <algorithm>
#include <new>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "kernels/saved/file_tier.h"
#include "tensor/device.h"

namespace longhaul::kernels {

struct LayerOnHost;

namespace {

// Layers whose tensors may be on their way to the host at once.
constexpr size_t kLayersAhead = 2;

// Memory of the host beside the allocator of tensors: a plan counts it apart. Page-locked for a GPU.
Tensor host_memory(int64_t bytes, at::Device device) {
  if (!device.is_cpu()) return empty_host_tensor({bytes}, at::kByte, device);
  constexpr std::align_val_t kAlignment{64};
  void* const memory = ::operator new(static_cast<size_t>(bytes), kAlignment);
  return at::from_blob(
      memory, {bytes}, [](void* address) { ::operator delete (address, std::align_val_t{64}); }, at::kByte);
}

// Rooms in the host's memory, each used again when nobody refers to it any more.
class Rooms {
 public:
  Rooms(int64_t most, at::Device device) : most_(most), device_(device) {}

  // Undefined: there is no room.
  Tensor take(int64_t bytes) {
    const Tensor* best = nullptr;
    for (const Tensor& room : rooms_) {
      if (in_use(room) || room.numel() < bytes || room.numel() > 2 * bytes) continue;
      if (best == nullptr || room.numel() < best->numel()) best = &room;
    }
    if (best != nullptr) return best->narrow(0, 0, bytes);
    if (taken_ + bytes > most_) drop_unused();
    if (taken_ + bytes > most_) return {};
    try {
      rooms_.push_back(host_memory(bytes, device_));
    } catch (const std::bad_alloc&) {
      return {};
    } catch (const c10::Error&) {  // of page-locked memory
      return {};
    }
    taken_ += bytes;
    return rooms_.back().narrow(0, 0, bytes);
  }
  int64_t taken() const { return taken_; }

 private:
  // Views are handed out, which hold the storage.
  static bool in_use(const Tensor& room) { return room.storage().use_count() > 1; }
  void drop_unused() {
    std::erase_if(rooms_, [&](const Tensor& room) {
      if (in_use(room)) return false;
      taken_ -= room.numel();
      return true;
    });
  }
  int64_t most_, taken_ = 0;
  at::Device device_;
  std::vector<Tensor> rooms_;
};

// Bytes that were moved, and can be asked for before they are wanted.
class Moved : public SavedStorage {
 public:
  explicit Moved(std::shared_ptr<LayerOnHost> layer) : layer_(std::move(layer)) {}
  virtual void fetch() = 0;

 protected:
  void fetch_ahead();  // all of the layer, and of the one before it

 private:
  std::shared_ptr<LayerOnHost> layer_;
};

}  // namespace

// What begin_layer() began: its tensors on the host, and the layer before it in the same pass.
struct LayerOnHost {
  int64_t number = 0;
  bool stays = false;
  std::weak_ptr<LayerOnHost> before;
  std::vector<std::weak_ptr<SavedStorage>> kept;
  std::vector<std::shared_ptr<Copy>> copies;  // to the host

  void fetch();
};

struct HostOffload::State {
  State(const HostOffloadOptions& options)
      : device(options.device),
        rooms(options.room_bytes, options.device),
        down("offload down", options.device, options.bytes_per_second),
        up("offload up", options.device, options.bytes_per_second),
        file(options.file_folder.empty()
                 ? nullptr
                 : std::make_unique<FileTier>(options.file_folder, options.bytes_per_second)) {}
  at::Device device;
  Rooms rooms;
  CopyLane down, up;
  std::unique_ptr<FileTier> file;       // null: two tiers
  Rooms on_the_way{INT64_MAX, device};  // page-locked, between a GPU and the file
  Use use{};
  std::shared_ptr<LayerOnHost> layer = std::make_shared<LayerOnHost>();  // the one that runs forward
  std::deque<std::shared_ptr<LayerOnHost>> leaving;
};

namespace {

class OnHost final : public Moved {
 public:
  OnHost(std::shared_ptr<HostOffload::State> state, std::shared_ptr<LayerOnHost> layer, Tensor host,
         std::shared_ptr<Copy> down)
      : Moved(std::move(layer)), state_(std::move(state)), host_(std::move(host)), down_(std::move(down)) {}

  void fetch() override {
    if (up_ != nullptr || fetched_) return;
    there_ = at::empty({host_.numel()}, at::TensorOptions().dtype(at::kByte).device(state_->device));
    up_ = state_->up.start(there_, host_, down_);
    state_->use.fetched_bytes += host_.numel();
  }

 protected:
  Tensor restore() override {
    fetch_ahead();
    fetch();
    const Stopwatch waiting;
    up_->before_next();
    state_->use.waited_s += waiting.seconds();
    fetched_ = true;
    up_ = nullptr, down_ = nullptr;
    host_ = Tensor();
    return std::exchange(there_, {});
  }

 private:
  std::shared_ptr<HostOffload::State> state_;
  Tensor host_, there_;
  std::shared_ptr<Copy> down_, up_;
  bool fetched_ = false;
};

// On the CPU the file is written from the tensor's memory and read into its successor's. From a GPU the bytes
// go through memory of the host: there they come back when they are wanted, and only reading is done ahead.
class InFileTier final : public Moved {
 public:
  InFileTier(std::shared_ptr<HostOffload::State> state, std::shared_ptr<LayerOnHost> layer,
             std::shared_ptr<InTier> lies, int64_t bytes)
      : Moved(std::move(layer)), state_(std::move(state)), lies_(std::move(lies)), bytes_(bytes) {}

  void fetch() override {
    if (read_ != nullptr || lies_ == nullptr) return;
    into_ = state_->device.is_cpu() ? at::empty({bytes_}, at::kByte) : state_->on_the_way.take(bytes_);
    if (!into_.defined()) into_ = at::empty({bytes_}, at::kByte);
    read_ = state_->file->read(*lies_, into_);
    state_->use.fetched_bytes += bytes_;
  }

 protected:
  Tensor restore() override {
    fetch_ahead();
    fetch();
    const Stopwatch waiting;
    read_->finish();
    state_->use.waited_s += waiting.seconds();
    const Tensor still_here = std::exchange(lies_, nullptr)->still_here();
    const std::shared_ptr<Copy> read = std::exchange(read_, nullptr);
    const Tensor into = std::exchange(into_, {});
    if (still_here.defined()) return owned(still_here);
    if (read->failure() != nullptr) std::rethrow_exception(read->failure());
    if (state_->device.is_cpu()) return into;
    const Tensor there = at::empty({bytes_}, at::TensorOptions().dtype(at::kByte).device(state_->device));
    state_->up.start(there, into)->before_next();
    return there;
  }

 private:
  // A storage that begins with them, which rows in the middle of another's do not.
  Tensor owned(const Tensor& bytes) const {
    const bool whole = bytes.storage_offset() == 0 && bytes.device() == state_->device &&
                       static_cast<int64_t>(bytes.storage().nbytes()) == bytes_;
    return whole ? bytes : bytes.to(state_->device, at::kByte, /*non_blocking=*/false, /*copy=*/true);
  }
  std::shared_ptr<HostOffload::State> state_;
  std::shared_ptr<InTier> lies_;  // null: it came back
  int64_t bytes_;
  Tensor into_;
  std::shared_ptr<Copy> read_;
};

// Of a layer that stays: its backward pass is when the layer before it is fetched.
class OnDevice final : public SavedStorage {
 public:
  OnDevice(std::shared_ptr<LayerOnHost> before, Tensor x) : before_(std::move(before)), x_(std::move(x)) {}

 protected:
  Tensor restore() override {
    if (before_ != nullptr) before_->fetch();
    before_ = nullptr;
    return std::exchange(x_, {});
  }

 private:
  std::shared_ptr<LayerOnHost> before_;
  Tensor x_;
};

Tensor flat_bytes_of(const Tensor& x) {
  const at::TensorOptions bytes = at::TensorOptions().dtype(at::kByte).device(x.device());
  return at::empty({0}, bytes).set_(x.storage(), 0, {static_cast<int64_t>(x.storage().nbytes())}, {1});
}

}  // namespace

void Moved::fetch_ahead() {
  layer_->fetch();
  if (const auto before = layer_->before.lock()) before->fetch();
}

// The layer's input, which its backward pass wants first, was taken last.
void LayerOnHost::fetch() {
  const at::NoGradGuard no_gradient;
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto& each = kept[i == 0 ? kept.size() - 1 : i - 1];
    if (const auto storage = each.lock()) static_cast<Moved&>(*storage).fetch();
  }
}

struct HostOffload::Measured {
  explicit Measured(at::Device device) : begun(device) {}
  Event begun;  // the layer
  double waited_before_s = 0;
  std::optional<LayerUse> layer;
  std::vector<std::pair<Event, Event>> products;
  std::vector<LayerUse> pass;
  std::vector<std::pair<int64_t, std::shared_ptr<Copy>>> copies;  // of the pass, with their bytes
};

HostOffload::HostOffload(const HostOffloadOptions& options)
    : options_(options),
      state_(std::make_shared<State>(options)),
      measured_(std::make_unique<Measured>(options.device)) {
  for (const Tensor& tensor : options.stays) stays_.insert(tensor.storage().unsafeGetStorageImpl());
}

HostOffload::~HostOffload() = default;

double HostOffload::row_share() const {
  const auto found = shares_.find(state_->layer->number);
  return found != shares_.end() ? found->second : options_.share;
}

HostOffload::Use HostOffload::use() const {
  Use use = state_->use;
  use.room_bytes = state_->rooms.taken();
  if (state_->file != nullptr) use.file_length = state_->file->longest();
  return use;
}

HostOffload::Use HostOffload::use_since_last() {
  const Use before = std::exchange(told_, use());
  Use use = told_;
  use.moved_bytes -= before.moved_bytes;
  use.fetched_bytes -= before.fetched_bytes;
  use.stayed_bytes -= before.stayed_bytes;
  use.file_bytes -= before.file_bytes;
  use.waited_s -= before.waited_s;
  return use;
}

void HostOffload::rows_made(int64_t bytes, Event begun, Event ended) {
  if (!tell_ || !measured_->layer) return;
  measured_->layer->row_bytes += bytes;
  measured_->products.emplace_back(std::move(begun), std::move(ended));
}

void HostOffload::end_layer() {
  Measured& now = *measured_;
  if (!now.layer) return;
  Event ended(options_.device);
  ended.record(Stream::current(options_.device));
  now.layer->seconds =
      1e-3 * ended.milliseconds_since(now.begun) - (state_->use.waited_s - now.waited_before_s);
  for (const auto& [begin, end] : now.products)
    now.layer->row_seconds += 1e-3 * end.milliseconds_since(begin);
  now.products.clear();
  now.pass.push_back(*now.layer);
  now.layer.reset();
}

void HostOffload::begin_layer(int64_t layer, bool stays) {
  State& state = *state_;
  if (tell_) end_layer();
  const bool follows = layer == state.layer->number + 1;
  if (tell_ && !follows && !measured_->pass.empty()) {
    double bytes = 0, seconds = 0;
    for (const auto& [of_copy, copy] : measured_->copies)
      bytes += static_cast<double>(of_copy), seconds += copy->seconds();
    measured_->copies.clear();
    const auto pass = std::exchange(measured_->pass, {});
    std::exchange(tell_, nullptr)(pass, seconds > 0 ? bytes / seconds : 0);
  }
  if (!state.layer->copies.empty()) state.leaving.push_back(state.layer);
  while (state.leaving.size() >= kLayersAhead) {
    const Stopwatch waiting;
    for (const auto& copy : state.leaving.front()->copies) copy->finish();
    state.use.waited_s += waiting.seconds();
    state.leaving.front()->copies.clear();
    state.leaving.pop_front();
    state.down.let_go();
  }
  auto next = std::make_shared<LayerOnHost>(LayerOnHost{.number = layer, .stays = stays});
  if (follows) next->before = state.layer;
  state.layer = next;
  if (!tell_) return;
  measured_->layer = LayerUse{.layer = layer, .stays = stays};
  measured_->waited_before_s = state.use.waited_s;
  measured_->begun.record(Stream::current(options_.device));
}

std::shared_ptr<SavedStorage> HostOffload::moved(const Tensor& bytes, bool rows) {
  State& state = *state_;
  const Tensor host = state.rooms.take(bytes.numel());
  std::shared_ptr<Copy> copy;
  std::shared_ptr<SavedStorage> storage;
  if (host.defined()) {
    copy = state.down.start(host, bytes);
    storage = std::make_shared<OnHost>(state_, state.layer, host, copy);
  } else if (state.file != nullptr && !state.file->failed()) {
    storage = moved_to_file(bytes, copy);
  } else {
    if (state.use.stayed_bytes == 0 && state.file == nullptr)
      log_warning("the host's memory for activations is full ({}): others stay on the device",
                  bytes_text(state.rooms.taken()));
    state.use.stayed_bytes += bytes.numel();
    return nullptr;
  }
  state.use.moved_bytes += bytes.numel();
  if (tell_ && measured_->layer) {
    if (!rows) measured_->layer->whole_bytes += bytes.numel();
    measured_->copies.emplace_back(bytes.numel(), copy);
  }
  state.layer->kept.push_back(storage);
  state.layer->copies.push_back(copy);
  return storage;
}

std::shared_ptr<SavedStorage> HostOffload::moved_to_file(const Tensor& bytes, std::shared_ptr<Copy>& copy) {
  State& state = *state_;
  Tensor from = bytes;
  std::shared_ptr<Copy> filled;
  if (!options_.device.is_cpu()) {
    from = state.on_the_way.take(bytes.numel());
    if (!from.defined()) from = at::empty({bytes.numel()}, at::kByte);
    filled = state.down.start(from, bytes);
  }
  const std::shared_ptr<InTier> lies = state.file->write(from, filled);
  copy = lies->written();
  state.use.file_bytes += bytes.numel();
  return std::make_shared<InFileTier>(state_, state.layer, lies, bytes.numel());
}

std::shared_ptr<SavedStorage> HostOffload::take(const Tensor& x) {
  const void* const address = x.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<int64_t>(x.storage().nbytes());
  if (x.is_meta() || bytes < options_.least_bytes || bytes == 0 || stays_.contains(address)) return nullptr;
  if (state_->layer->stays) return std::make_shared<OnDevice>(state_->layer->before.lock(), x.detach());
  if (const auto found = known_.find(address); found != known_.end() && found->second.seen.is(x)) {
    if (auto there = found->second.storage.lock()) return there;
  }
  const at::NoGradGuard no_gradient;
  const auto there = moved(flat_bytes_of(x), /*rows=*/false);
  if (there != nullptr) known_.insert_or_assign(address, Known{SeenStorage(x), there});
  return there;
}

std::shared_ptr<SavedStorage> HostOffload::take_rows(const Tensor& x) {
  const auto bytes = static_cast<int64_t>(x.nbytes());
  if (state_->layer->stays || x.is_meta() || bytes < options_.least_bytes || bytes == 0) return nullptr;
  const at::NoGradGuard no_gradient;
  const at::TensorOptions options = at::TensorOptions().dtype(at::kByte).device(x.device());
  const auto begin = static_cast<int64_t>(x.storage_offset()) * static_cast<int64_t>(x.element_size());
  return moved(at::empty({0}, options).set_(x.storage(), begin, {bytes}, {1}), /*rows=*/true);
}

}  // namespace longhaul::kernels
