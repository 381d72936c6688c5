// TensorBoard event files, written without its libraries: TFRecord frames around the few protocol-buffer
// messages that scalars need (docs/formats/events.md lists them). Tags: loss, bits_per_byte, grad_norm,
// learning_rate, tokens_per_second, mfu, hfu, mfu_full_attention, entry_skew_milliseconds.
//
//   writer.add(std::make_shared<TensorBoard>(run_folder / "tensorboard"));
//
// Every process writes a new file. After a resume, a session-log START at the first repeated step makes
// TensorBoard drop what an earlier process recorded from there on. Not thread-safe by itself; EventWriter
// calls readers one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "observe/events/event_log.h"

namespace longhaul::observe {

// rotated right by 15 and offset, as TFRecord requires
uint32_t masked_crc32c(std::string_view data);
std::string tensorboard_record(std::string_view message);  // length, its crc, message, its crc
std::string tensorboard_version(double wall_time);         // message of the first record
std::string tensorboard_scalars(double wall_time, int64_t step,
                                const std::vector<std::pair<std::string_view, double>>& scalars);
std::string tensorboard_session_start(double wall_time, int64_t step);

class TensorBoard : public EventReader {
 public:
  // Makes the folder; the file is created by the first event.
  explicit TensorBoard(std::filesystem::path folder);
  void on(const Event& event) override;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void open(double wall_time);
  void append(const std::string& message);

  std::filesystem::path folder_;
  File file_;
  int64_t good_bytes_ = 0;
  bool torn_ = false;
};

}  // namespace longhaul::observe
