"""seal_reference - docs/formats/sealing.md and keys.md once more, in plain Python, for comparison with
crates/seal.

Nothing but hashlib and hmac is used: AES, its counter mode, XTS, AEGIS-256X4 and BLAKE3 stand here. Slow, and
careless about timing: for test vectors only.
"""

import hashlib
import hmac
import struct


def xor(one, two):
    """The sum of two strings, over the length of the shorter."""
    return bytes(a ^ b for a, b in zip(one, two))


# AES (FIPS 197).


def times(a, b):
    """The product in GF(256)."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = (a << 1) ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def make_sbox():
    """The substitution: inverse, then the affine map."""
    box = []
    for value in range(256):
        inverse = next((b for b in range(256) if times(value, b) == 1), 0)
        bits = inverse * 0x101
        box.append(0x63 ^ inverse ^ (bits >> 7 ^ bits >> 6 ^ bits >> 5 ^ bits >> 4) & 0xFF)
    return box


SBOX = make_sbox()
TWICE, THRICE = ([times(value, factor) for value in range(256)] for factor in (2, 3))
SHIFTED = [(4 * (column + row) + row) % 16 for column in range(4) for row in range(4)]


def substitute(state):
    """SubBytes and ShiftRows."""
    return [SBOX[state[place]] for place in SHIFTED]


def aes_round(state, key):
    """One middle round."""
    state, mixed = substitute(state), []
    for at in range(0, 16, 4):
        column = state[at : at + 4]
        for row in range(4):
            a, b, c, d = (column[(row + step) % 4] for step in range(4))
            mixed.append(TWICE[a] ^ THRICE[b] ^ c ^ d)
    return xor(mixed, key)


class Aes:
    """AES with a key of 16 or 32 bytes."""

    def __init__(self, key):
        words = [key[at : at + 4] for at in range(0, len(key), 4)]
        size, constant = len(words), 1
        while len(words) < 4 * (size + 7):
            word = words[-1]
            if len(words) % size == 0:
                word = xor(bytes(SBOX[byte] for byte in word[1:] + word[:1]), bytes([constant, 0, 0, 0]))
                constant = times(constant, 2)
            elif size > 6 and len(words) % size == 4:
                word = bytes(SBOX[byte] for byte in word)
            words.append(xor(word, words[-size]))
        self.keys = [b"".join(words[at : at + 4]) for at in range(0, len(words), 4)]

    def encrypt(self, block):
        state = xor(block, self.keys[0])
        for key in self.keys[1:-1]:
            state = aes_round(state, key)
        return xor(substitute(state), self.keys[-1])


def counter_mode(cipher, start, data):
    """NIST SP 800-38A, 6.5, with a counter of 128 bits."""
    start, stream = int.from_bytes(start, "big"), b""
    for number in range((len(data) + 15) // 16):
        stream += cipher.encrypt(((start + number) % 2**128).to_bytes(16, "big"))
    return xor(data, stream)


def xts_encrypt(keys, unit, data, skipped=0):
    """IEEE 1619, whole blocks, of which the data unit has as many before as are skipped."""
    cipher, parts = Aes(keys[:32]), []
    tweak = int.from_bytes(Aes(keys[32:]).encrypt(unit.to_bytes(16, "little")), "little")
    for _ in range(skipped):
        tweak = (tweak << 1) ^ (2**128 + 0x87 if tweak >> 127 else 0)
    for at in range(0, len(data), 16):
        mask = tweak.to_bytes(16, "little")
        parts.append(xor(cipher.encrypt(xor(data[at : at + 16], mask)), mask))
        tweak = (tweak << 1) ^ (2**128 + 0x87 if tweak >> 127 else 0)
    return b"".join(parts)


# AEGIS-256X4 (draft-irtf-cfrg-aegis-aead).

LANES = 4
C0 = bytes.fromhex("000101020305080d1522375990e97962")
C1 = bytes.fromhex("db3d18556dc22ff12011314273b528dd")


def sum_of(*parts):
    """The sum of equally long strings."""
    total = bytes(len(parts[0]))
    for part in parts:
        total = xor(total, part)
    return total


class Aegis:
    """The state of one encryption."""

    def __init__(self, key, nonce):
        k0, k1, n0, n1 = key[:16], key[16:], nonce[:16], nonce[16:]
        start = [xor(k0, n0), xor(k1, n1), C1, C0, xor(k0, C0), xor(k1, C1)]
        self.state = [list(start) for _ in range(LANES)]
        for word in 4 * [k0, k1, xor(k0, n0), xor(k1, n1)]:
            for lane, state in enumerate(self.state):
                context = bytes([lane, LANES - 1]) + bytes(14)
                state[3], state[5] = xor(state[3], context), xor(state[5], context)
            self.update(LANES * [word])

    def update(self, words):
        """Absorbs a word in each lane."""
        for lane, word in enumerate(words):
            v = self.state[lane]
            self.state[lane] = [aes_round(v[5], xor(v[0], word))] + [
                aes_round(v[row - 1], v[row]) for row in range(1, 6)
            ]

    def encrypt(self, part):
        """Up to 64 bytes."""
        mask = b""
        for v in self.state:
            mask += sum_of(v[1], v[4], v[5], bytes(a & b for a, b in zip(v[2], v[3])))
        padded = part.ljust(16 * LANES, b"\0")
        self.update([padded[at : at + 16] for at in range(0, len(padded), 16)])
        return xor(part, mask)

    def tag(self, length):
        """The 32 bytes of tag, without associated data."""
        lengths = bytes(8) + (8 * length).to_bytes(8, "little")
        words = [xor(v[3], lengths) for v in self.state]
        for _ in range(7):
            self.update(words)
        return b"".join(sum_of(*(row for v in self.state for row in v[at : at + 3])) for at in (0, 3))


def aegis_encrypt(key, nonce, data):
    """Ciphertext and tag."""
    state = Aegis(key, nonce)
    step = 16 * LANES
    sealed = b"".join(state.encrypt(data[at : at + step]) for at in range(0, len(data), step))
    return sealed, state.tag(len(data))


# BLAKE3 (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2021), for messages of one block.

START = struct.unpack("<4I", bytes.fromhex("67e6096a85ae67bb72f36e3c3af54fa5"))
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
QUARTERS = (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)
DIAGONALS = (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)
# CHUNK_START, CHUNK_END, ROOT and KEYED_HASH.
ONE_BLOCK_KEYED = 1 | 2 | 8 | 16


def turned(word, bits):
    """A rotation to the right."""
    return (word >> bits | word << (32 - bits)) % 2**32


def quarter_round(v, places, *words):
    """The function G."""
    a, b, c, d = places
    for word, (first, second) in zip(words, ((16, 12), (8, 7))):
        v[a] = (v[a] + v[b] + word) % 2**32
        v[d] = turned(v[d] ^ v[a], first)
        v[c] = (v[c] + v[d]) % 2**32
        v[b] = turned(v[b] ^ v[c], second)


def blake3_keyed(key, message):
    """The first 64 bytes of the keyed hash of 64 bytes or fewer."""
    chain = struct.unpack("<8I", key)
    words = struct.unpack("<16I", message.ljust(64, b"\0"))
    v = [*chain, *START, 0, 0, len(message), ONE_BLOCK_KEYED]
    for _ in range(7):
        for number, places in enumerate(QUARTERS + DIAGONALS):
            quarter_round(v, places, *words[2 * number : 2 * number + 2])
        words = [words[place] for place in PERMUTATION]
    low = [one ^ other for one, other in zip(v[:8], v[8:])]
    return struct.pack("<16I", *low, *(one ^ other for one, other in zip(v[8:], chain)))


# The format.


def mac(key, *parts):
    """HMAC-SHA-256."""
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def derive(secret, salt, purpose, length):
    """HKDF-SHA-256."""
    extracted, out, previous = mac(salt, secret), b"", b""
    for number in range(1, length // 32 + 2):
        previous = mac(extracted, previous, purpose, bytes([number]))
        out += previous
    return out[:length]


def little(number, length):
    """A number of the format."""
    return number.to_bytes(length, "little")


def siv_seal(keys, header, payload):
    """Ciphertext and tag."""
    tag = mac(keys[:32], header, payload, little(len(header), 4))[:16]
    return counter_mode(Aes(keys[32:]), tag, payload), tag


def fold(data, width):
    """The sum of all columns."""
    columns = [data[at : at + width].ljust(width, b"\0") for at in range(0, len(data), width)]
    return sum_of(*columns)


def unwrap(keys, wrapped):
    """The key of a block, from the 32 bytes that stand for it."""
    left, right = wrapped[:16], wrapped[16:]
    cipher = Aes(keys[:32])
    mixed = xor(cipher.encrypt(left), right)
    first, second = (cipher.encrypt(xor(mixed, mask)) for mask in (keys[32:48], keys[48:]))
    return xor(first, left) + second


def all_or_nothing(first, rest, hashing, context, message, counter):
    """The second ciphertext, and the sum that hides t."""
    message = counter_mode(Aes(first), counter(0), message)
    tag = mac(hashing, context, message)[:16]
    message = counter_mode(Aes(tag + rest), counter(1), message)
    return message, xor(tag, fold(message, 16))


def seal_block(seal, v, data):
    """Ciphertext and stub of a block; `v` has the fields of a vector."""
    context = little(v["block"], 8) + little(v["born"], 8) + little(v["slot"], 8)
    context += little(v["sequence"], 4) + little(v["generation"], 4)
    lengths = {"none": 0, "aes-xts": 64, "aon-2005": 48, "aon": 80, "random-key": 64, "r-aon": 64}
    keys = derive(v["master"], v["disk"] + v["session"], b"quietus seal 1 " + seal.encode(), lengths[seal])

    def counter(which):
        place = v["slot"].to_bytes(8, "big") + v["sequence"].to_bytes(4, "big")
        return place + bytes([which, 0, 0, 0])

    if seal == "none":
        return data, b""
    if seal == "aes-xts":
        return xts_encrypt(keys, v["sequence"] << 64 | v["slot"], data), b""
    if seal == "aon-2005":
        return all_or_nothing(keys[:16], b"", keys[16:], context, data, counter)
    if seal == "aon":
        message = data + v["drawn"]
        sealed, hidden = all_or_nothing(keys[:32], keys[32:48], keys[48:], context, message, counter)
        return sealed[: len(data)], sealed[len(data) :] + hidden
    sealed, tag = aegis_encrypt(unwrap(keys, v["drawn"]), context, data)
    wrapped = xor(v["drawn"], fold(sealed, 32)) if seal == "r-aon" else v["drawn"]
    return sealed, wrapped + tag


def encrypt_sectors(v, data):
    """Keys of a block under a cell, and the ciphertext of sectors of it; `v` has the fields of a vector."""
    key = derive(v["master"], b"", b"quietus sealed blocks v1", 32) if v["master"] else bytes(32)
    keys = blake3_keyed(key, v["cell"] + little(v["block"], 8))
    return keys, xts_encrypt(keys, v["block"], data, 32 * v["from"])


class Generator:
    """The generator with fast key erasure."""

    def __init__(self, seed):
        self.key, self.pool = seed, b""

    def reseed(self, seed):
        """Mixes a seed in."""
        self.key, self.pool = mac(self.key, seed), b""

    def take(self, count):
        """The next bytes."""
        while len(self.pool) < count:
            stream = counter_mode(Aes(self.key), bytes(16), bytes(1024))
            self.key, self.pool = stream[:32], self.pool + stream[32:]
        taken, self.pool = self.pool[:count], self.pool[count:]
        return taken


# The key file.


def crc32c(data):
    """Castagnoli's checksum."""
    sum_ = 0xFFFFFFFF
    for byte in data:
        sum_ ^= byte
        for _ in range(8):
            sum_ = sum_ >> 1 ^ (0x82F63B78 if sum_ & 1 else 0)
    return little(sum_ ^ 0xFFFFFFFF, 4)


def page(content):
    """A page with its checksum."""
    content = content.ljust(4092, b"\0")
    return content + crc32c(content)


def key_file(v):
    """Slot, master key, record of a session and the whole file; `v` has the fields of a vector."""
    root, salt, master = (v["drawn"][at : at + 32] for at in (0, 32, 64))
    kind = 1 + ["passphrase", "key file", "command"].index(v["kind"])
    secret = v["stretched"] or v["secret"]

    def head(magic, number):
        return magic + little(1, 4) + little(number, 4) + v["disk"]

    slot = head(b"QUIETKSL", 1) + little(kind, 4)
    slot += b"".join(little(number, 4) for number in v["stretch"]) + salt
    keys = derive(secret, salt, b"quietus key slot 1 " + v["kind"].encode(), 64)
    wrapped, tag = siv_seal(keys, slot, root)
    slot += tag + wrapped
    first = head(b"QUIETKMK", 9) + bytes(16)
    wrapped, tag = siv_seal(derive(root, v["disk"], b"quietus master key 1", 64), first, master)
    first += tag + wrapped
    record = v["session"] + bytes(12)
    record += crc32c(v["disk"] + record)
    header = head(b"QUIETKEY", 0)
    pages = page(header) + page(slot) + bytes(7 * 4096) + page(first) + bytes(63 * 4096)
    return {"header": header, "key-slot": slot, "master-key": first, "record": record, "file": pages + record}
