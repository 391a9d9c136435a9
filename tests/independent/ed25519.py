# SPDX-License-Identifier: Apache-2.0
"""Ed25519 as RFC 8032 says, verification only; one process less for each signature."""
import hashlib

P = 2 ** 255 - 19
L = 2 ** 252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
_ROOT = pow(2, (P - 1) // 4, P)


def _recover(y, sign):
    """The x of a point on the curve, or None."""
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * _ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return P - x if (x & 1) != sign else x


def _point(data):
    """A point in extended coordinates, from its 32 bytes."""
    y = int.from_bytes(data, "little")
    x = _recover(y & (2 ** 255 - 1), y >> 255)
    if x is None:
        return None
    y &= 2 ** 255 - 1
    return x, y, 1, x * y % P


def _add(a, b):
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    w, x, y, z = f - e, h - g, h + g, f + e
    return w * x % P, y * z % P, x * y % P, w * z % P


def _double(a):
    s, t = a[0] * a[0] % P, a[1] * a[1] % P
    u, w = 2 * a[2] * a[2] % P, (a[0] + a[1]) * (a[0] + a[1])
    e, g = (w - s - t) % P, t - s
    f, h = g - u, -(s + t)
    return e * f % P, g * h % P, f * g % P, e * h % P


_ZERO = (0, 1, 1, 0)
_BASE_Y = 4 * pow(5, P - 2, P) % P
_BASE = _point(_BASE_Y.to_bytes(32, "little"))


def _table(point):
    """The multiples from 0 to 15."""
    out = [_ZERO, point]
    for _ in range(14):
        out.append(_add(out[-1], point))
    return out


_BASE_TABLE = _table(_BASE)


def _both(s, k, point):
    """s times the base plus k times the point."""
    table, out = _table(point), _ZERO
    for shift in range(252, -1, -4):
        for _ in range(4):
            out = _double(out)
        if s >> shift & 15:
            out = _add(out, _BASE_TABLE[s >> shift & 15])
        if k >> shift & 15:
            out = _add(out, table[k >> shift & 15])
    return out


def verify(public, signature, message):
    """Whether this is a signature of the message by the key."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, s = _point(public), int.from_bytes(signature[32:], "little")
    if key is None or _point(signature[:32]) is None or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    minus = (P - key[0], key[1], 1, P - key[3])
    x, y, z, _ = _both(s, k, minus)
    inverse = pow(z, P - 2, P)
    x, y = x * inverse % P, y * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]
