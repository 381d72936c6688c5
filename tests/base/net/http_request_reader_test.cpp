// Requests with bodies, whole and in pieces, from honest and other clients.
#include "base/net/http_request_reader.h"

#include <gtest/gtest.h>

#include <utility>

namespace longhaul {
namespace {

using Stage = HttpRequestReader::Stage;

HttpRequestReader read_all(std::string_view bytes, size_t longest_body = 100) {
  HttpRequestReader reader(longest_body);
  reader.add(bytes);
  return reader;
}

// The status that refuses a POST with these headers and five bytes behind them.
int refused(const std::string& headers) {
  return read_all("POST / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n12345").head().refused;
}

TEST(HttpRequestReader, AQuestionIsWholeWithItsHead) {
  HttpRequestReader reader = read_all("GET /x HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345");
  EXPECT_EQ(reader.stage(), Stage::kWhole);
  EXPECT_EQ(reader.head().path, "/x");
  EXPECT_EQ(reader.held(), 0u);
  EXPECT_EQ(reader.take_body(), "");
}

TEST(HttpRequestReader, ABodyIsTheSameInWhateverPieces) {
  const std::string head = "POST /v HTTP/1.1\r\nHost: a\r\ncontent-length: 11\r\n\r\n";
  const std::string all = head + std::string("a\r\n\r\nb\0c\n\n\n", 11) + "the next";
  for (size_t first = 0; first <= all.size(); ++first) {
    HttpRequestReader reader(100);
    reader.add(all.substr(0, first));
    EXPECT_EQ(reader.stage(), first < head.size()        ? Stage::kHead
                              : first < head.size() + 11 ? Stage::kBody
                                                         : Stage::kWhole)
        << first;
    reader.add(all.substr(first));
    EXPECT_EQ(reader.stage(), Stage::kWhole) << first;
    EXPECT_EQ(reader.held(), 11u) << first;
    EXPECT_EQ(reader.take_body(), std::string("a\r\n\r\nb\0c\n\n\n", 11)) << first;
  }
  HttpRequestReader by_bytes(100);
  for (const char byte : all) by_bytes.add({&byte, 1});
  EXPECT_EQ(by_bytes.take_body(), std::string("a\r\n\r\nb\0c\n\n\n", 11));
}

TEST(HttpRequestReader, ALengthIsToldInOneWay) {
  for (const char* length : {"", "+5", "-5", "0x5", "5 5", "5,5", "5.0", "five"})
    EXPECT_EQ(refused("Content-Length: " + std::string(length) + "\r\n"), 400) << length;
  EXPECT_EQ(refused("Content-Length: 5\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(refused("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(refused("Transfer-Encoding: chunked\r\n"), 411);
  EXPECT_EQ(refused(""), 411);
  EXPECT_EQ(refused("Content-Length: 5\r\nContent-Encoding: gzip\r\n"), 415);
  EXPECT_EQ(refused("Content-Length: 5\r\nContent-Encoding: identity\r\n"), 0);
  EXPECT_EQ(refused("Content-Length: 0005\r\n"), 0);
}

TEST(HttpRequestReader, LongBodiesAreRefusedBeforeTheyCome) {
  EXPECT_EQ(refused("Content-Length: 100\r\n"), 0);
  for (const char* length :
       {"101", "18446744073709551615", "18446744073709551616", "99999999999999999999999999"})
    EXPECT_EQ(refused("Content-Length: " + std::string(length) + "\r\n"), 413) << length;
  const HttpRequestReader reader = read_all("POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n12345");
  EXPECT_EQ(reader.stage(), Stage::kWhole);
  EXPECT_EQ(reader.held(), 0u);
}

TEST(HttpRequestReader, WithoutBodiesAPostIsItsHead) {
  const HttpRequestReader reader = read_all("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345", 0);
  EXPECT_EQ(reader.stage(), Stage::kWhole);
  EXPECT_EQ(reader.head().refused, 0) << "whether it is taken, the server's rules say";
  EXPECT_EQ(reader.held(), 0u);
}

TEST(HttpRequestReader, AnEmptyBodyIsWholeAtOnce) {
  HttpRequestReader reader = read_all("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nmore");
  EXPECT_EQ(reader.stage(), Stage::kWhole);
  EXPECT_EQ(reader.take_body(), "");
}

TEST(HttpRequestReader, AHeadThatCannotBeReadHasNoBody) {
  const HttpRequestReader reader = read_all("POST / HTTP/3.0\r\nContent-Length: 5\r\n\r\n12345");
  EXPECT_EQ(reader.stage(), Stage::kWhole);
  EXPECT_EQ(reader.head().refused, 505);
  EXPECT_EQ(reader.held(), 0u);
}

}  // namespace
}  // namespace longhaul
