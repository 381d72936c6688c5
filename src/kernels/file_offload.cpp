#include "kernels/file_offload.h"

#include <algorithm>

#include "base/files/unnamed_file.h"

namespace longhaul::kernels {

struct FileOffload::Space {
  File file;
  // behind the last bytes; storages that lie there; the largest `end`
  int64_t end = 0, lying = 0, most = 0;
  // places by their size: those of one pass are those of the next
  std::unordered_map<int64_t, std::vector<int64_t>> free{};

  int64_t take(int64_t bytes) {
    ++lying;
    if (std::vector<int64_t>& places = free[bytes]; !places.empty()) {
      const int64_t place = places.back();
      places.pop_back();
      return place;
    }
    end += bytes;
    most = std::max(most, end);
    return end - bytes;
  }
  void give_back(int64_t place, int64_t bytes) {
    free[bytes].push_back(place);
    if (--lying > 0) return;
    end = 0;
    free.clear();
  }
};

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
  InFile(std::shared_ptr<FileOffload::Space> space, const c10::Storage& storage, at::Device device)
      : space_(std::move(space)),
        device_(device),
        bytes_(static_cast<int64_t>(storage.nbytes())),
        offset_(space_->take(bytes_)) {
    try {
      space_->file.write_at(offset_, span_of(flat_bytes(storage, device).cpu()));
    } catch (...) {
      space_->give_back(offset_, bytes_);
      throw;
    }
  }
  ~InFile() override { space_->give_back(offset_, bytes_); }

 protected:
  Tensor restore() override {
    const Tensor here = at::empty({bytes_}, at::kByte);
    space_->file.read_exactly(offset_, span_of(here));
    return here.to(device_);
  }

 private:
  std::shared_ptr<FileOffload::Space> space_;
  at::Device device_;
  int64_t bytes_, offset_;
};

}  // namespace

FileOffload::FileOffload(const std::filesystem::path& folder, int64_t least_bytes,
                         const std::vector<Tensor>& stays)
    : least_bytes_(least_bytes), space_(std::make_shared<Space>()) {
  space_->file = unnamed_file(folder);
  for (const Tensor& tensor : stays) stays_.insert(tensor.storage().unsafeGetStorageImpl());
}

int64_t FileOffload::file_bytes() const { return space_->most; }

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
