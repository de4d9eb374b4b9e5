// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/instructions.hpp"

#include <algorithm>
#include <string_view>

namespace mh::openmp::instructions {
namespace {

using Byte = std::uint8_t;

// ---- x86-64 (Intel's manual, volume 2, appendix A) ----------------------------------------------

// What follows an opcode.
struct Form {
  bool valid = true;
  bool modrm = false;
  std::uint8_t immediate = 0;  // bytes
};
constexpr Form kInvalid{.valid = false};
constexpr Form with_modrm(unsigned immediate = 0) {
  return {.modrm = true, .immediate = static_cast<std::uint8_t>(immediate)};
}
constexpr Form plain(unsigned immediate) {
  return {.immediate = static_cast<std::uint8_t>(immediate)};
}

constexpr bool within(Byte value, Byte first, Byte last) { return value >= first && value <= last; }

struct Prefixes {
  bool narrow = false;  // operands of 16 bits
  bool wide = false;    // of 64
  bool short_addresses = false;
  // Of an immediate that is as wide as its operand, up to 32 bits.
  [[nodiscard]] unsigned operand() const { return narrow && !wide ? 2 : 4; }
};

// Opcodes of one byte, a letter each: what follows.
//   . nothing  x no instruction  b 1 byte  w 2  t 3  d 4  z operand  v operand, 8 if wide  o
//   address M modrm  m and 1 byte  W and operand  1 and 1 byte, 2 and operand for the first two of
//   a group p modrm for the first of a group, else AMD's XOP
constexpr std::string_view kFirstMap =
    "MMMMbzxxMMMMbzxx"  // 00
    "MMMMbzxxMMMMbzxx"
    "MMMMbzxxMMMMbzxx"
    "MMMMbzxxMMMMbzxx"
    "................"  // 40
    "................"
    "xxxM....zWbm...."
    "bbbbbbbbbbbbbbbb"
    "mWxmMMMMMMMMMMMp"  // 80
    "..........x....."
    "oooo....bz......"
    "bbbbbbbbvvvvvvvv"
    "mmw.xxmWt.w..bx."  // c0
    "MMMMxxx.MMMMMMMM"
    "bbbbbbbbddxb...."
    "......12......MM";

// Those after 0f, and those of vector instructions of map 1.
constexpr std::string_view kSecondMap =
    "MMMMx.....x.xM.m"  // 00
    "MMMMMMMMMMMMMMMM"
    "MMMMxxxxMMMMMMMM"
    "........MMMMMMMM"
    "MMMMMMMMMMMMMMMM"  // 40
    "MMMMMMMMMMMMMMMM"
    "MMMMMMMMMMMMMMMM"
    "mmmmMMM.MMMMMMMM"
    "dddddddddddddddd"  // 80
    "MMMMMMMMMMMMMMMM"
    "...MmMMM...MmMMM"
    "MMMMMMMMMMmMMMMM"
    "MMmMmmmM........"  // c0
    "MMMMMMMMMMMMMMMM"
    "MMMMMMMMMMMMMMMM"
    "MMMMMMMMMMMMMMMM";
static_assert(kFirstMap.size() == 256 && kSecondMap.size() == 256);

// `next` is the byte after the opcode: its middle bits tell the members of a group apart.
Form form_of(char letter, Byte next, const Prefixes& with) {
  const unsigned operand = with.operand();
  const unsigned member = next >> 3U & 7U;
  const std::size_t bytes = std::string_view(".bwtd").find(letter);
  if (bytes != std::string_view::npos) return plain(static_cast<unsigned>(bytes));
  switch (letter) {
    case 'z':
      return plain(operand);
    case 'v':
      return plain(with.wide ? 8 : operand);
    case 'o':
      return plain(with.short_addresses ? 4 : 8);
    case 'M':
      return with_modrm();
    case 'm':
      return with_modrm(1);
    case 'W':
      return with_modrm(operand);
    case '1':
      return with_modrm(member < 2 ? 1 : 0);
    case '2':
      return with_modrm(member < 2 ? operand : 0);
    case 'p':
      return member == 0 ? with_modrm() : kInvalid;
    default:
      return kInvalid;
  }
}

// Of a map by its number, as vector prefixes name it.
Form of_map(unsigned map, Byte opcode) {
  if (map == 1) return form_of(kSecondMap[opcode], 0, {});
  if (map == 3) return with_modrm(1);
  return map == 2 || map == 5 || map == 6 ? with_modrm() : kInvalid;
}

// An instruction as far as it was read.
struct Decoded {
  std::size_t distance = 0;  // where a distance from the instruction's end is, 0: there is none
  bool goes = false;         // that is where it goes
  std::size_t length = 0;    // 0: it is none
};

class Decoder {
 public:
  explicit Decoder(std::span<const Byte> code) : code_(code) {}

  Decoded run() {
    take_prefixes();
    const Form form = take_opcode();
    if (!form.valid) return {};
    if (form.modrm) take_modrm();
    if (goes_) done_.distance = at_;
    at_ += form.immediate;
    if (at_ > code_.size()) return {};
    done_.goes = goes_;
    done_.length = at_;
    return done_;
  }

 private:
  // Behind the end everything is 0: the length tells.
  [[nodiscard]] Byte peek(std::size_t ahead = 0) const {
    return at_ + ahead < code_.size() ? code_[at_ + ahead] : Byte{0};
  }
  Byte take() {
    const Byte byte = peek();
    ++at_;
    return byte;
  }

  void take_prefixes() {
    static constexpr Byte kPrefixes[] = {0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e,
                                         0x36, 0x3e, 0x26, 0x64, 0x65};
    while (std::find(std::begin(kPrefixes), std::end(kPrefixes), peek()) != std::end(kPrefixes)) {
      if (at_ == code_.size()) return;
      with_.narrow = with_.narrow || peek() == 0x66;
      with_.short_addresses = with_.short_addresses || peek() == 0x67;
      ++at_;
    }
    if ((peek() & 0xf0U) == 0x40) with_.wide = (take() & 8U) != 0;
  }

  Form take_opcode() {
    const Byte first = take();
    if (first == 0x0f) return take_second();
    if (first == 0xc5) return take_vector(1, 1);
    if (first == 0xc4) return take_vector(peek() & 0x1fU, 2);
    if (first == 0x62) return take_vector(peek() & 7U, 3);
    goes_ = first == 0xe8 || first == 0xe9;
    return form_of(kFirstMap[first], peek(), with_);
  }

  Form take_second() {
    const Byte second = take();
    if (second == 0x38 || second == 0x3a) {
      ++at_;
      return with_modrm(second == 0x3a ? 1 : 0);
    }
    goes_ = within(second, 0x80, 0x8f);
    return of_map(1, second);
  }

  // `payload`: bytes between the prefix's first and the opcode.
  Form take_vector(unsigned map, std::size_t payload) {
    at_ += payload;
    return of_map(map, take());
  }

  void take_modrm() {
    const Byte modrm = take();
    const unsigned mode = modrm >> 6U;
    const unsigned memory = modrm & 7U;
    if (mode == 3) return;
    if (mode == 0 && memory == 5) done_.distance = at_;
    const bool has_index = memory == 4;
    const bool no_base = has_index && (peek() & 7U) == 5;
    if (has_index) ++at_;
    if (mode == 1) at_ += 1;
    if (mode == 2 || (mode == 0 && (memory == 5 || no_base))) at_ += 4;
  }

  std::span<const Byte> code_;
  std::size_t at_ = 0;
  Prefixes with_;
  bool goes_ = false;
  Decoded done_;
};

}  // namespace

std::size_t length(std::span<const std::uint8_t> code) { return Decoder(code).run().length; }

bool x86_64(std::span<const std::uint8_t> code, std::uintptr_t address, const Visit& visit) {
  for (std::size_t at = 0; at < code.size();) {
    const Decoded now = Decoder(code.subspan(at)).run();
    if (now.length == 0) return false;
    const std::size_t begin = at;
    at += now.length;
    if (now.distance == 0) continue;
    const auto distance = read<std::int32_t>(&code[begin + now.distance]);
    visit(now.goes ? Target::code : Target::place,
          address + at + static_cast<std::uintptr_t>(distance));
  }
  return true;
}

}  // namespace mh::openmp::instructions
