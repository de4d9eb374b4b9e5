// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/instructions.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace mh::openmp::instructions {
namespace {

using CodeByte = std::uint8_t;

// ---- x86-64 (Intel's manual, volume 2, appendix A) ----------------------------------------------

// The bytes that follow the opcode of an instruction: whether there is a modrm byte, and the length
// of an immediate.
struct InstructionForm {
  bool valid = true;
  bool modrm = false;
  std::uint8_t immediate = 0;  // bytes
};
constexpr InstructionForm kInvalid{.valid = false};
constexpr InstructionForm with_modrm(unsigned immediate = 0) {
  return {.modrm = true, .immediate = static_cast<std::uint8_t>(immediate)};
}
constexpr InstructionForm plain(unsigned immediate) {
  return {.immediate = static_cast<std::uint8_t>(immediate)};
}

constexpr bool is_within(CodeByte value, CodeByte first, CodeByte last) {
  return value >= first && value <= last;
}

struct Prefixes {
  bool narrow = false;  // operands of 16 bits
  bool wide = false;    // operands of 64 bits
  bool short_addresses = false;
  // Returns the length in bytes of an immediate that is as wide as the operand, but has at most 32
  // bits.
  [[nodiscard]] unsigned operand() const { return narrow && !wide ? 2 : 4; }
};

// Opcodes of one byte. Each letter says what follows the opcode:
//   .  nothing
//   x  not an instruction
//   b  1 byte       w  2 bytes      t  3 bytes      d  4 bytes
//   z  an immediate of Prefixes::operand() bytes
//   v  the same, but 8 bytes if the operand has 64 bits     o  an address
//   M  modrm        m  modrm and 1 byte              W  modrm and an immediate as for z
//   1  modrm, and 1 byte for the first two members of a group
//   2  modrm, and an immediate as for z for the first two members of a group
//   p  modrm for the first member of a group; the other members are AMD's XOP
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

// The bytes that follow an opcode after 0f, by the letters of kFirstMap. The opcodes are also those
// of vector instructions in opcode map 1.
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

// Returns the form that a letter of an opcode map stands for. `next` is the byte after the opcode;
// if it is a modrm byte, its middle bits select a member of a group of instructions.
InstructionForm form_of(char letter, CodeByte next, const Prefixes& with) {
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

// Returns the form of the vector instruction with this opcode in opcode map `map`, which its prefix
// names.
InstructionForm of_map(unsigned map, CodeByte opcode) {
  if (map == 1) return form_of(kSecondMap[opcode], 0, {});
  if (map == 3) return with_modrm(1);
  return map == 2 || map == 5 || map == 6 ? with_modrm() : kInvalid;
}

struct DecodedInstruction {
  // position in the instruction of a displacement of 32 bits, which counts from the instruction's
  // end; 0: none
  std::size_t distance = 0;
  bool goes = false;       // the displacement is a jump or call target
  bool indirect = false;   // a call or jump through memory or a register
  std::size_t length = 0;  // 0: not an instruction
};

class Decoder {
 public:
  explicit Decoder(std::span<const CodeByte> code) : code_(code) {}

  DecodedInstruction run() {
    take_prefixes();
    const InstructionForm form = take_opcode();
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
  // Reads a byte of the instruction. Bytes behind the end of the code read as 0; run() finds at its
  // end that the instruction is longer than the code.
  [[nodiscard]] CodeByte peek(std::size_t ahead = 0) const {
    return at_ + ahead < code_.size() ? code_[at_ + ahead] : CodeByte{0};
  }
  CodeByte take() {
    const CodeByte byte = peek();
    ++at_;
    return byte;
  }

  void take_prefixes() {
    static constexpr CodeByte kPrefixes[] = {0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e,
                                             0x36, 0x3e, 0x26, 0x64, 0x65};
    while (std::find(std::begin(kPrefixes), std::end(kPrefixes), peek()) != std::end(kPrefixes)) {
      if (at_ == code_.size()) return;
      with_.narrow = with_.narrow || peek() == 0x66;
      with_.short_addresses = with_.short_addresses || peek() == 0x67;
      ++at_;
    }
    if ((peek() & 0xf0U) == 0x40) with_.wide = (take() & 8U) != 0;
  }

  InstructionForm take_opcode() {
    const CodeByte first = take();
    if (first == 0x0f) return take_second();
    if (first == 0xc5) return take_vector(1, 1);
    if (first == 0xc4) return take_vector(peek() & 0x1fU, 2);
    if (first == 0x62) return take_vector(peek() & 7U, 3);
    goes_ = first == 0xe8 || first == 0xe9;
    may_be_indirect_ = first == 0xff;
    return form_of(kFirstMap[first], peek(), with_);
  }

  InstructionForm take_second() {
    const CodeByte second = take();
    if (second == 0x38 || second == 0x3a) {
      ++at_;
      return with_modrm(second == 0x3a ? 1 : 0);
    }
    goes_ = is_within(second, 0x80, 0x8f);
    return of_map(1, second);
  }

  // Takes the rest of the prefix of a vector instruction, and the opcode. `map`: the opcode map.
  // `payload`: bytes between the first byte of the prefix and the opcode.
  InstructionForm take_vector(unsigned map, std::size_t payload) {
    at_ += payload;
    return of_map(map, take());
  }

  void take_modrm() {
    const CodeByte modrm = take();
    const unsigned mode = modrm >> 6U;
    const unsigned member = modrm >> 3U & 7U;
    done_.indirect = may_be_indirect_ && member >= 2 && member <= 5;
    const unsigned memory = modrm & 7U;
    if (mode == 3) return;
    if (mode == 0 && memory == 5) done_.distance = at_;
    const bool has_index = memory == 4;
    const bool no_base = has_index && (peek() & 7U) == 5;
    if (has_index) ++at_;
    if (mode == 1) at_ += 1;
    if (mode == 2 || (mode == 0 && (memory == 5 || no_base))) at_ += 4;
  }

  std::span<const CodeByte> code_;
  std::size_t at_ = 0;
  Prefixes with_;
  bool goes_ = false;
  bool may_be_indirect_ = false;
  DecodedInstruction done_;
};

// True for mfence, and for a locked `add` or `or` of zero to the stack, which compilers use in its
// place. Code that adds zero elsewhere is a reduction.
bool is_fence(std::span<const CodeByte> instruction) {
  constexpr std::array<CodeByte, 3> kMfence = {0x0f, 0xae, 0xf0};
  constexpr CodeByte kLock = 0xf0;
  constexpr CodeByte kShortImmediate = 0x83;  // the middle bits of modrm: 0 is `add`, 1 is `or`
  constexpr CodeByte kStackPointer = 0x24;    // SIB byte: the address is %rsp and a distance
  if (std::ranges::equal(instruction, kMfence)) return true;
  if (instruction.size() < 5 || instruction.front() != kLock || instruction.back() != 0)
    return false;
  const bool is_wide = (instruction[1] & 0xf0U) == 0x40;
  const auto rest = instruction.subspan(is_wide ? 2 : 1);
  const bool has_sib = (rest[1] & 7U) == 4;
  return rest[0] == kShortImmediate && (rest[1] >> 3U & 7U) <= 1 && has_sib &&
         rest[2] == kStackPointer;
}

}  // namespace

std::size_t length(std::span<const std::uint8_t> code) { return Decoder(code).run().length; }

bool x86_64(std::span<const std::uint8_t> code, std::uintptr_t address,
            const ReferenceVisitor& visit) {
  for (std::size_t at = 0; at < code.size();) {
    const DecodedInstruction now = Decoder(code.subspan(at)).run();
    if (now.length == 0) return false;
    const std::size_t begin = at;
    at += now.length;
    if (is_fence(code.subspan(begin, now.length))) visit(ReferenceKind::fence, 0);
    if (now.distance == 0) {
      if (now.indirect) visit(ReferenceKind::through_pointer, 0);
      continue;
    }
    const auto distance = load_value<std::int32_t>(&code[begin + now.distance]);
    const ReferenceKind otherwise =
        now.indirect ? ReferenceKind::through_slot : ReferenceKind::slot;
    visit(now.goes ? ReferenceKind::code : otherwise,
          address + at + static_cast<std::uintptr_t>(distance));
  }
  return true;
}

}  // namespace mh::openmp::instructions
