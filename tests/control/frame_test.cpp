// Frames: whole ones come out whatever pieces they arrive in; damaged ones end the stream before anything is
// stored.
#include "control/wire/frame.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace longhaul::control {
namespace {

TEST(Frame, TheWrittenForm) {
  // Length 9, CRC-32C of "123456789" = e3069283, both little-endian.
  EXPECT_EQ(to_frame("123456789"), std::string("\x09\0\0\0\x83\x92\x06\xe3", 8) + "123456789");
}

TEST(Frame, AnyPiecesGiveTheSameFrames) {
  std::vector<std::string> messages = {"", "a", std::string("with \0 zero", 11), std::string(70000, 'x'),
                                       std::string(kFrameLimit, 'y')};
  std::string stream;
  for (const std::string& message : messages) stream += to_frame(message);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, stream.size()}) {
    FrameReader reader;
    std::vector<std::string> got;
    for (size_t at = 0; at < stream.size(); at += piece) {
      reader.input().append(stream, at, piece);
      while (const auto frame = reader.next()) got.push_back(*frame);
      if (piece < 7 && at > 80000) break;  // byte by byte the long ones take long
    }
    if (piece >= 7) {
      EXPECT_EQ(got, messages) << piece;
    }
    EXPECT_GE(got.size(), 4u);
  }
}

TEST(Frame, TooLongIsSeenBeforeItArrives) {
  FrameReader reader(100);
  reader.input() = to_frame(std::string(100, 'x'));
  EXPECT_TRUE(reader.next());
  EXPECT_FALSE(reader.next());
  reader.input() += to_frame(std::string(101, 'x')).substr(0, 8);
  EXPECT_THROW(reader.next(), Error);
  FrameReader all;
  all.input() = "\xff\xff\xff\xff????";
  EXPECT_THROW(all.next(), Error);
}

TEST(Frame, EveryFlippedBitIsSeen) {
  const std::string good = to_frame("stop ranks of generation 7");
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    FrameReader reader;
    reader.input() = bad;
    bool got = false;
    try {
      got = reader.next().has_value();  // a longer length waits for more
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCommunication);
    }
    EXPECT_FALSE(got) << bit;
  }
}

}  // namespace
}  // namespace longhaul::control
