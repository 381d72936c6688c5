#include "kernels/saved/file_offload.h"

namespace longhaul::kernels {

namespace {

// The bytes of a storage.
Tensor flat_bytes(const c10::Storage& storage, at::Device device) {
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(device)).set_(storage, 0, {bytes}, {1});
}

std::span<std::byte> span_of(const Tensor& bytes) {
  return {static_cast<std::byte*>(bytes.mutable_data_ptr()), static_cast<size_t>(bytes.numel())};
}

class InFile final : public SavedStorage {
 public:
  InFile(std::shared_ptr<FileSpace> space, const c10::Storage& storage, at::Device device)
      : space_(std::move(space)),
        device_(device),
        bytes_(static_cast<int64_t>(storage.nbytes())),
        offset_(space_->take(bytes_)) {
    try {
      space_->file().write_at(offset_, span_of(flat_bytes(storage, device).cpu()));
    } catch (...) {
      space_->give_back(offset_, bytes_);
      throw;
    }
  }
  ~InFile() override { space_->give_back(offset_, bytes_); }

 protected:
  Tensor restore() override {
    const Tensor here = at::empty({bytes_}, at::kByte);
    space_->file().read_exactly(offset_, span_of(here));
    return here.to(device_);
  }

 private:
  std::shared_ptr<FileSpace> space_;
  at::Device device_;
  int64_t bytes_, offset_;
};

}  // namespace

FileOffload::FileOffload(const std::filesystem::path& folder, int64_t least_bytes,
                         const std::vector<Tensor>& stays)
    : least_bytes_(least_bytes), space_(std::make_shared<FileSpace>(folder)) {
  for (const Tensor& tensor : stays) stays_.insert(tensor.storage().unsafeGetStorageImpl());
}

int64_t FileOffload::file_bytes() const { return space_->longest(); }

std::shared_ptr<SavedStorage> FileOffload::take(const Tensor& x) {
  const void* const address = x.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<int64_t>(x.storage().nbytes());
  if (x.is_meta() || bytes < least_bytes_ || stays_.contains(address)) return nullptr;
  if (const auto found = known_.find(address); found != known_.end() && found->second.seen.is(x)) {
    if (auto lies = found->second.storage.lock()) return lies;
  }
  const at::NoGradGuard no_gradient;
  const auto lies = std::make_shared<InFile>(space_, x.storage(), x.device());
  moved_bytes_ += bytes;
  known_.insert_or_assign(address, Known{SeenStorage(x), lies});
  return lies;
}

}  // namespace longhaul::kernels
