#include "observe/tensorboard.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/checksum.h"
#include "base/machine/machine.h"

namespace longhaul::observe {
namespace {

// The protocol-buffer encoding: a key is field number and wire type (0 varint, 1 eight bytes, 2 length and
// bytes, 5 four bytes).
void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_fixed(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event.wall_time = 1 (double), Event.step = 2 (int64, left out when 0 as proto3 does).
std::string event_head(double wall_time, int64_t step) {
  std::string out = "\x09";
  put_fixed(out, std::bit_cast<uint64_t>(wall_time), 8);
  if (step != 0) {
    out += '\x10';
    put_varint(out, static_cast<uint64_t>(step));
  }
  return out;
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
  std::string out = event_head(wall_time, 0);
  put_bytes(out, 3, "brain.Event:2");  // Event.file_version
  return out;
}

std::string tensorboard_scalars(double wall_time, int64_t step, const std::vector<std::pair<std::string_view, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);  // Summary.Value.tag
    value += '\x15';           // Summary.Value.simple_value = 2 (float)
    put_fixed(value, std::bit_cast<uint32_t>(static_cast<float>(number)), 4);
    put_bytes(summary, 1, value);  // Summary.value
  }
  std::string out = event_head(wall_time, step);
  put_bytes(out, 5, summary);  // Event.summary
  return out;
}

std::string tensorboard_session_start(double wall_time, int64_t step) {
  std::string out = event_head(wall_time, step);
  put_bytes(out, 7, "\x08\x01");  // Event.session_log {status 1 = START}
  return out;
}

TensorBoard::TensorBoard(std::filesystem::path folder) : folder_(std::move(folder)) { make_folders(folder_); }

// TensorBoard reads the files of a folder in the order of their names, so a second file of the same second
// gets a later number.
void TensorBoard::open(double wall_time) {
  std::filesystem::path path;
  for (int serial = 0; path.empty() || std::filesystem::exists(path); ++serial) {
    path = folder_ / fmt::format("events.out.tfevents.{:010}.{}.{:03}", static_cast<int64_t>(wall_time), machine().host, serial);
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
    std::vector<std::pair<std::string_view, double>> scalars = {{"loss", step->loss},
                                                                {"grad_norm", step->grad_norm},
                                                                {"learning_rate", step->learning_rate},
                                                                {"tokens_per_second", step->tokens_per_second}};
    if (step->mfu) scalars.emplace_back("mfu", *step->mfu);
    if (step->hfu) scalars.emplace_back("hfu", *step->hfu);
    if (step->entry_skew_milliseconds) scalars.emplace_back("entry_skew_milliseconds", *step->entry_skew_milliseconds);
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
    for (const auto& [name, value] : evaluation->metrics) scalars.emplace_back(tags.emplace_back("heldout_" + name), value);
    append(tensorboard_scalars(now, evaluation->step, scalars));
  } else if (const auto* resume = std::get_if<Resume>(&event.body)) {
    append(tensorboard_session_start(now, resume->step + 1));
  }
}

}  // namespace longhaul::observe
