#include "observe/tensorboard.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/checksum.h"
#include "base/machine/machine.h"
#include "observe/protobuf.h"

namespace longhaul::observe {
namespace {

void put_fixed(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// Event.wall_time = 1 (double), Event.step = 2 (int64, left out when 0 as proto3 does).
ProtobufMessage event_head(double wall_time, int64_t step) {
  ProtobufMessage event;
  event.real(1, wall_time);
  if (step != 0) event.number(2, static_cast<uint64_t>(step));
  return event;
}

}  // namespace

uint32_t masked_crc32c(std::string_view data) {
  const uint32_t crc = crc32c(data);
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string tensorboard_record(std::string_view message) {
  std::string out;
  put_fixed(out, message.size(), 8);
  put_fixed(out, masked_crc32c(out), 4);
  out += message;
  put_fixed(out, masked_crc32c(message), 4);
  return out;
}

std::string tensorboard_version(double wall_time) {
  return event_head(wall_time, 0).text(3, "brain.Event:2").bytes();  // Event.file_version
}

std::string tensorboard_scalars(double wall_time, int64_t step,
                                const std::vector<std::pair<std::string_view, double>>& scalars) {
  ProtobufMessage summary;
  for (const auto& [tag, number] : scalars) {
    ProtobufMessage value;
    value.text(1, tag).real(2, static_cast<float>(number));  // Summary.Value.tag, simple_value
    summary.message(1, value);                               // Summary.value
  }
  return event_head(wall_time, step).message(5, summary).bytes();  // Event.summary
}

std::string tensorboard_session_start(double wall_time, int64_t step) {
  // Event.session_log {status = START}
  return event_head(wall_time, step).message(7, ProtobufMessage().number(1, 1)).bytes();
}

TensorBoard::TensorBoard(std::filesystem::path folder) : folder_(std::move(folder)) { make_folders(folder_); }

// TensorBoard reads the files of a folder in the order of their names, so a second file of the same second
// gets a later number.
void TensorBoard::open(double wall_time) {
  std::filesystem::path path;
  for (int serial = 0; path.empty() || std::filesystem::exists(path); ++serial) {
    path = folder_ / fmt::format("events.out.tfevents.{:010}.{}.{:03}", static_cast<int64_t>(wall_time),
                                 machine().host, serial);
  }
  file_ = File::open(path, File::Mode::kAppend);
  append(tensorboard_version(wall_time));
}

void TensorBoard::append(const std::string& message) {
  // Half a record, left by a full disk, would end the file for every reader.
  if (torn_) file_.truncate(good_bytes_);
  const std::string record = tensorboard_record(message);
  torn_ = true;
  file_.write(record);
  torn_ = false;
  good_bytes_ += static_cast<int64_t>(record.size());
}

void TensorBoard::on(const Event& event) {
  const double now = event.common.wall_time;
  if (!file_) open(now);
  if (const auto* step = std::get_if<StepReport>(&event.body)) {
    std::vector<std::pair<std::string_view, double>> scalars = {
        {"loss", step->loss},
        {"grad_norm", step->grad_norm},
        {"learning_rate", step->learning_rate},
        {"tokens_per_second", step->tokens_per_second}};
    if (step->mfu) scalars.emplace_back("mfu", *step->mfu);
    if (step->hfu) scalars.emplace_back("hfu", *step->hfu);
    if (step->taken_by_others) scalars.emplace_back("taken_by_others", *step->taken_by_others);
    if (step->entry_skew_milliseconds)
      scalars.emplace_back("entry_skew_milliseconds", *step->entry_skew_milliseconds);
    if (step->mfu_full_attention) scalars.emplace_back("mfu_full_attention", *step->mfu_full_attention);
    if (step->auxiliary_loss) scalars.emplace_back("auxiliary_loss", *step->auxiliary_loss);
    for (const auto& [name, value] : step->metrics) scalars.emplace_back(name, value);
    append(tensorboard_scalars(now, step->step, scalars));
  } else if (const auto* evaluation = std::get_if<Evaluation>(&event.body)) {
    std::vector<std::pair<std::string_view, double>> scalars;
    if (evaluation->bits_per_byte) scalars.emplace_back("bits_per_byte", *evaluation->bits_per_byte);
    if (evaluation->loss) scalars.emplace_back("heldout_loss", *evaluation->loss);
    std::vector<std::string> tags;  // a step's metric may have the same name
    tags.reserve(evaluation->metrics.size());
    for (const auto& [name, value] : evaluation->metrics)
      scalars.emplace_back(tags.emplace_back("heldout_" + name), value);
    append(tensorboard_scalars(now, evaluation->step, scalars));
  } else if (const auto* resume = std::get_if<Resume>(&event.body)) {
    append(tensorboard_session_start(now, resume->step + 1));
  }
}

}  // namespace longhaul::observe
