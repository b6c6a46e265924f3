// Whether the ciphers branch on secrets or index with them. Memory with secrets is marked undefined;
// valgrind then reports every jump and every address that depends on it. `make secrets` runs this.
// open() jumps on its verdict, so its halves stand for it.

#include <cstdio>

#include "net/crypto.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>

using namespace shoal::net;

namespace {

/// A number that depends on everything hidden and shown: what follows must not be optimised away.
unsigned total = 0;

void hide(std::span<const std::byte> bytes) {
    VALGRIND_MAKE_MEM_UNDEFINED(bytes.data(), bytes.size());
}
void show(std::span<const std::byte> bytes) {
    VALGRIND_MAKE_MEM_DEFINED(bytes.data(), bytes.size());
    for (const std::byte byte : bytes) total += unsigned(byte);
}
void show(bool& verdict) {
    show(std::as_bytes(std::span(&verdict, 1)));
}

Key hidden_key(int first) {
    Key key;
    for (std::size_t i = 0; i < kKeyBytes; ++i) key.bytes()[i] = std::byte(first * 41 + int(i) * 7);
    hide(key.bytes());
    return key;
}

void ciphers() {
    const Key key = hidden_key(1);
    std::byte text[700] = {}, associated[21] = {};
    for (const std::size_t size : {0u, 1u, 15u, 16u, 64u, 65u, 192u, 193u, 700u}) {
        const std::span<std::byte> part(text, size);
        hide(part);
        Tag tag;
        seal(key, nonce_from(size), associated, part, tag);
        show(part);
        show(tag);
        hide(part);
        chacha20(key, nonce_from(size), 1, part);
        tag = poly1305(key, part);
        show(part);
        show(tag);
    }
    std::byte other[700] = {};
    hide(text);
    bool same = equal_in_constant_time(text, other);
    show(same);
}

void agreement() {
    const Key key = hidden_key(2);
    const PublicKey public_key = x25519_public_key(key);
    show(public_key);
    Key shared;
    for (const std::byte first : {std::byte(9), std::byte(1)}) {  // a good point, and one of low order
        bool good = x25519(shared, key, {first});
        show(good);
        show(shared.bytes());
    }
}

void hashes() {
    std::byte text[200] = {};
    hide(text);
    show(blake2s(text, hidden_key(3).bytes()));
    show(hmac_blake2s(text, text));
    Key outputs[3] = {hidden_key(4)};
    hkdf(outputs[0], text, outputs);
    for (const Key& output : outputs) show(output.bytes());
}

}  // namespace

int main() {
    if (RUNNING_ON_VALGRIND == 0) {
        std::puts("this checks nothing outside valgrind");
        return 1;
    }
    ciphers();
    agreement();
    hashes();
    std::printf("no branch and no index on secrets (%u)\n", total);
}

#else

int main() {
    std::puts("skipped: no valgrind/memcheck.h on this machine");
}

#endif
