#include "kernels/saved/cheap_tensors.h"

#include "base/error.h"

namespace longhaul::kernels {
namespace {

class MadeAgainStorage final : public SavedStorage {
 public:
  MadeAgainStorage(int64_t bytes, std::function<Tensor()> make) : bytes_(bytes), make_(std::move(make)) {}

 protected:
  Tensor restore() override {
    Tensor made = make_();
    LONGHAUL_ASSERT(static_cast<int64_t>(made.storage().nbytes()) == bytes_, "{} bytes were made again of {}",
                    made.storage().nbytes(), bytes_);
    make_ = nullptr;  // what it read is free
    return made;
  }

 private:
  int64_t bytes_;
  std::function<Tensor()> make_;
};

}  // namespace

std::shared_ptr<SavedStorage> CheapTensors::take(const Tensor& x) {
  const auto found = known_.find(x.storage().unsafeGetStorageImpl());
  if (found != known_.end() && found->second.seen.is(x)) return found->second.storage;
  return others_ != nullptr ? others_->take(x) : nullptr;
}

void CheapTensors::can_be_made_again(const Tensor& x, std::function<Tensor()> make) {
  LONGHAUL_ASSERT(x.storage_offset() == 0 && x.is_contiguous(),
                  "a tensor that is a part of another cannot be made again");
  known_.insert_or_assign(
      x.storage().unsafeGetStorageImpl(),
      Known{SeenStorage(x),
            std::make_shared<MadeAgainStorage>(static_cast<int64_t>(x.storage().nbytes()), std::move(make))});
}

}  // namespace longhaul::kernels
