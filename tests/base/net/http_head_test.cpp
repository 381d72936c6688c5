// Heads of requests as honest and other clients write them.
#include "base/net/http_head.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

HttpHead head_of(const std::string& target, const std::string& headers = "Host: a\r\n") {
  return read_head("GET " + target + " HTTP/1.1\r\n" + headers + "\r\n");
}

TEST(HttpHead, EndsAtTheEmptyLine) {
  EXPECT_FALSE(head_ends("GET / HTTP/1.1\r\nHost: a\r\n"));
  EXPECT_TRUE(head_ends("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_TRUE(head_ends("GET / HTTP/1.1\nHost: a\n\n"));
  EXPECT_FALSE(head_ends(std::string(kLongestHead, 'a')));
  EXPECT_TRUE(head_ends(std::string(kLongestHead + 1, 'a')));
}

TEST(HttpHead, IsReadWhole) {
  const HttpHead head = read_head(
      "HEAD /a%20b/%C3%A9?x=1%262&y=a+b&z&=v&& HTTP/1.0\r\nHOST:  a:80 \r\nAccept: text/html\r\nAccept: "
      "*/*\r\n\r\nbody");
  EXPECT_EQ(head.refused, 0);
  EXPECT_EQ(head.method, "HEAD");
  EXPECT_EQ(head.path, "/a b/\xC3\xA9");
  EXPECT_EQ(head.query,
            (std::multimap<std::string, std::string>{{"", "v"}, {"x", "1&2"}, {"y", "a b"}, {"z", ""}}));
  EXPECT_EQ(head.header("host"), "a:80");
  EXPECT_EQ(head.header("accept"), "text/html, */*");
  EXPECT_EQ(head.header("cookie"), "");
  EXPECT_EQ(head_of("/p?a#b").query.begin()->first, "a");
  EXPECT_EQ(read_head("GET / HTTP/1.1\nHost: a\n\n").header("host"), "a");
}

TEST(HttpHead, WhatTwoReadersCouldReadInTwoWaysIsRefused) {
  for (const char* headers :
       {"Host: a\r\nHost: b\r\n", "Host : a\r\n", "Host: a\r\n folded\r\n", "no colon\r\n", ": nameless\r\n",
        "X: a\x01"
        "b\r\n",
        "X: a\rb\r\n", "Authorization: a\r\nAuthorization: b\r\n"})
    EXPECT_EQ(head_of("/", headers).refused, 400) << headers;
  for (const char* target : {"", "a", "http://a/", "*", "/%", "/%2", "/%zz", "/?a=%g0", "/a b"})
    EXPECT_EQ(head_of(target).refused, 400) << target;
  EXPECT_EQ(read_head("GET / HTTP/2.0\r\n\r\n").refused, 505);
  EXPECT_EQ(read_head("GET / FTP/1.1\r\n\r\n").refused, 400);
  EXPECT_EQ(read_head("G(T / HTTP/1.1\r\n\r\n").refused, 400);
  EXPECT_EQ(read_head("\r\n\r\n").refused, 400);
  EXPECT_EQ(read_head(std::string("GET /\0 HTTP/1.1\r\n\r\n", 19)).refused, 400);
}

TEST(HttpHead, LongOnesAreRefused) {
  EXPECT_EQ(read_head("GET /" + std::string(kLongestHead, 'a')).refused, 414);
  EXPECT_EQ(read_head("GET / HTTP/1.1\r\nX: " + std::string(kLongestHead, 'a')).refused, 431);
  EXPECT_EQ(head_of("/" + std::string(8000, 'a')).refused, 0);
}

}  // namespace
}  // namespace longhaul
