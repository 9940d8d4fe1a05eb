/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Known octets of the wire: RFC examples, messages built from the RFCs and
 * checked with a protocol analyser, and Terminates captured from siw.
 */
#ifndef RNIC_TEST_VECTORS_H
#define RNIC_TEST_VECTORS_H

#include <glib.h>
#include <stdint.h>
#include <string.h>

enum vector_kind {
    VEC_REQUEST,      /* MPA Request frame */
    VEC_REPLY,        /* MPA Reply frame */
    VEC_FPDU,         /* one FPDU with a valid CRC */
    VEC_FPDU_NO_CRC,  /* one FPDU, CRC field zero */
    VEC_FPDU_BAD_CRC, /* one FPDU, CRC field wrong */
    VEC_FPDU_SIW,     /* one FPDU not encoded as this end would */
    VEC_MARKED,       /* one FPDU with a marker */
    VEC_HEADERS,      /* length and header of two segments */
};

struct vector {
    const char *name;
    enum vector_kind kind;
    const char *hex;
};

static const struct vector vectors[] = {
    /* RFC 5044 Figure 5 (marker + Send, 24 zero octets) */
    { "rfc5044_fig5", VEC_MARKED,
      "00000000002a4143000000000000000000000001000000000000000000000000"
      "0000000000000000000000000000000052239983" },
    /* RFC 5044 Figure 6 (Send MSN=2, marker inside, FPDUPTR=0x14) */
    { "rfc5044_fig6", VEC_MARKED,
      "002a414300000000000000000000000200000000000000140000000000000000"
      "0000000000000000000000000000000084925898" },
    /* Req: C=1 S=1 Rev=2 IRD=4 ORD=4, client/server, ULP PD "hello" */
    { "mpa_req_v2_crc", VEC_REQUEST,
      "4d504120494420526571204672616d65500200090004000468656c6c6f" },
    /* Rep: C=1 S=1 Rev=2 IRD=4 ORD=4, ULP PD "ok" */
    { "mpa_rep_v2_crc", VEC_REPLY,
      "4d504120494420526570204672616d6550020006000400046f6b" },
    /* Send MSN=1 MO=0 L=1, payload 00..0f */
    { "send16", VEC_FPDU,
      "0022414300000000000000000000000100000000000102030405060708090a0b"
      "0c0d0e0f85f22389" },
    /* Send SE MSN=1, payload "hello" (ULPDU 23, pad 3) */
    { "sendse5", VEC_FPDU,
      "001741450000000000000000000000010000000068656c6c6f000000f7290be8" },
    /* Send+Invalidate STag 0x00010203 MSN=2 payload "abc" */
    { "sendinv3", VEC_FPDU,
      "001541440001020300000000000000020000000061626300be2139d7" },
    /* Send SE+Invalidate, zero length, MSN=3 */
    { "sendseinv0", VEC_FPDU,
      "0012414600010204000000000000000300000000cbc9999d" },
    /* zero-length Send MSN=4 */
    { "send0", VEC_FPDU, "001241430000000000000000000000040000000044aabc1c" },
    /* RDMA Write STag=0x12345678 TO=0x100000002000 8 octets */
    { "write8", VEC_FPDU,
      "0016c14012345678000010000000200041424344454647485b404671" },
    /* zero-length RDMA Write (RTR form used by siw: STag=1 TO=0) */
    { "write0", VEC_FPDU, "000ec140000000010000000000000000ebd34c5f" },
    /*
     * first 16 octets of both segments of the 2048-octet Write (RFC 5041 5.2
     * example)
     */
    { "write_seg_hdrs", VEC_HEADERS,
      "05dc81401234567800000000000040000240c1401234567800000000000045ce" },
    /*
     * first 20 octets of both segments of the 2048-octet Send (RFC 5041 5.2
     * example)
     */
    { "send_seg_hdrs", VEC_HEADERS,
      "05dc014300000000000000000000000500000000024841430000000000000000"
      "00000005000005ca" },
    /*
     * Read Request MSN=1 sink=0xAABBCC01/0x1000 size=16 src=0xDDEEFF02/0x2000
     */
    { "rreq16", VEC_FPDU,
      "002e414100000000000000010000000100000000aabbcc010000000000001000"
      "00000010ddeeff020000000000002000bad6b650" },
    /* Read Response to rreq16 */
    { "rresp16", VEC_FPDU,
      "001ec142aabbcc010000000000001000000102030405060708090a0b0c0d0e0f"
      "462c1528" },
    /*
     * zero-length Read Request MSN=2 (RTR form used by siw: sink STag 0, src
     * STag 1)
     */
    { "rreq0", VEC_FPDU,
      "002e414100000000000000010000000200000000000000000000000000000000"
      "00000000000000010000000000000000cb6da827" },
    /* zero-length Read Response */
    { "rresp0", VEC_FPDU, "000ec1420000000000000000000000006975d6ca" },
    /*
     * Terminate DDP/Untagged/0x02 (no buffer), M=1 D=1, terminated DDP hdr of
     * Send MSN=10, seglen=22
     */
    { "term_ddp_nobuf", VEC_FPDU,
      "002a4147000000000000000200000001000000001202c0000016414300000000"
      "000000000000000a0000000019d04a58" },
    /* Req p2p: A=B=C=D=1 IRD=ORD=1 */
    { "mpa_req_p2p_all", VEC_REQUEST,
      "4d504120494420526571204672616d6550020004c001c001" },
    /* Rep p2p choosing RTR=write */
    { "mpa_rep_p2p_write", VEC_REPLY,
      "4d504120494420526570204672616d655002000480018001" },
    /* Rep p2p choosing RTR=read */
    { "mpa_rep_p2p_read", VEC_REPLY,
      "4d504120494420526570204672616d655002000480014001" },
    /* Rep p2p choosing RTR=send */
    { "mpa_rep_p2p_send", VEC_REPLY,
      "4d504120494420526570204672616d6550020004c0010001" },
    /* Req Rev=1, no flags, no private data (20 octets) */
    { "mpa_req_v1", VEC_REQUEST, "4d504120494420526571204672616d6500010000" },
    /* Rep Rev=1, no flags */
    { "mpa_rep_v1", VEC_REPLY, "4d504120494420526570204672616d6500010000" },
    /* Send with CRC disabled: CRC field present, zero */
    { "send_nocrc", VEC_FPDU_NO_CRC,
      "001d4143000000000000000000000001000000006e6f20637263206865726500"
      "00000000" },
    /* Req Rev=1 M=1 C=1 */
    { "mpa_req_markers", VEC_REQUEST,
      "4d504120494420526571204672616d65c0010000" },
    /* Rep Rev=1 M=1 C=1 */
    { "mpa_rep_markers", VEC_REPLY,
      "4d504120494420526570204672616d65c0010000" },
    /* Atomic FetchAdd MSN=1 QN=1 ReqID=0x1001 add=5 mask=0 */
    { "areq_fadd", VEC_FPDU,
      "0046414a000000000000000100000001000000000000000000001001ddeeff02"
      "0000000000002000000000000000000500000000000000000000000000000000"
      "ffffffffffffffff64d1ef71" },
    /* Atomic Response QN=3 MSN=1 orig=0x0102030405060708 */
    { "aresp_fadd", VEC_FPDU,
      "001e414b00000000000000030000000100000000000010010102030405060708"
      "eeddeac4" },
    /* Atomic CmpSwap MSN=2 */
    { "areq_cas", VEC_FPDU,
      "0046414a000000000000000100000002000000000000000200001002ddeeff02"
      "00000000000020081111222233334444ffffffffffffffff000000000000aaaa"
      "ffffffffffffffff71026e06" },
    /* Immediate Data QN=0 MSN=1 */
    { "imm8", VEC_FPDU,
      "001a41480000000000000000000000010000000000000000cafebabea6d65954" },
    /* Immediate Data with SE QN=0 MSN=2 */
    { "immse8", VEC_FPDU,
      "001a41490000000000000000000000020000000000112233445566779e098fd6" },
    /*
     * Terminate RDMAP/RemoteProtection/InvalidSTag for the Read Request:
     * M=D=R=1
     */
    { "term_rdmap_prot", VEC_FPDU,
      "00464147000000000000000200000001000000000100e000002e414100000000"
      "000000010000000100000000aabbcc01000000000000100000000040dead0000"
      "00000000000020002e5220de" },
    /*
     * Terminate RDMAP/RemoteOperation/UnexpectedOpcode, no headers (siw form)
     */
    { "term_opcode", VEC_FPDU,
      "0016414700000000000000020000000100000000020600006f77b973" },
    /* Terminate LLP/MPA/0x06 insufficient IRD */
    { "term_mpa_ird", VEC_FPDU,
      "0016414700000000000000020000000100000000200600006540fb1b" },
    /*
     * Terminate DDP/Tagged/0x01 base-or-bounds, M=D=1, terminated tagged
     * header
     */
    { "term_ddp_bounds", VEC_FPDU,
      "00264147000000000000000200000001000000001101c0000016c14012345678"
      "000000000000ffffe430f053" },
    /* Rep R=1 with ULP private data "no" */
    { "mpa_rep_reject", VEC_REPLY,
      "4d504120494420526570204672616d6570020006000400046e6f" },
    /* send16 with the first CRC octet XOR 1 */
    { "send_badcrc", VEC_FPDU_BAD_CRC,
      "0022414300000000000000000000000100000000000102030405060708090a0b"
      "0c0d0e0f84f22389" },
    /* Terminate LLP/MPA/0x02 (CRC error), M=D=R=0 */
    { "term_mpa_crc", VEC_FPDU,
      "0016414700000000000000020000000100000000200200007fe42585" },
    /* siw: Write to an unknown STag, bits in its own order */
    { "siw_term_write_stag", VEC_FPDU_SIW,
      "0026414700000000000000020000000100000000110003000040c140dead0100"
      "00007f6fe21f20003782104f" },
    /* siw: Read of an unknown STag, bits in its own order */
    { "siw_term_read_stag", VEC_FPDU_SIW,
      "0046414700000000000000020000000100000000100007000000414100000000"
      "00000001000000400000000088bc480000007f683934000000000040dead0100"
      "00007f0fb710a000b39d869e" },
    /* siw: Send without a receive, bits in its own order */
    { "siw_term_no_buffer", VEC_FPDU_SIW,
      "002a414700000000000000020000000100000000210203000040414300000000"
      "000000000000000200000000e6916f15" },
};

/*
 * The octets of a hexadecimal string, in a heap block of exactly that size,
 * so that AddressSanitizer sees any read beyond them; NULL if empty. Free
 * with g_free().
 */
static inline uint8_t *hex_octets(const char *hex, size_t *len)
{
    size_t i;
    uint8_t *buf;

    *len = strlen(hex) / 2;
    buf = g_malloc(*len);
    for (i = 0; i < *len; i++) {
        buf[i] = (uint8_t)(g_ascii_xdigit_value(hex[2 * i]) << 4 |
                           g_ascii_xdigit_value(hex[2 * i + 1]));
    }
    return buf;
}

/* The octets of the vector @name, likewise. */
static inline uint8_t *vector_octets(const char *name, size_t *len)
{
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(vectors); i++) {
        if (!strcmp(vectors[i].name, name)) {
            return hex_octets(vectors[i].hex, len);
        }
    }
    g_error("no vector %s", name);
}

/* A copy of @len octets at @buf in a heap block of exactly that size. */
static inline uint8_t *exact_copy(const uint8_t *buf, size_t len)
{
    uint8_t *copy = g_malloc(len);

    if (len) {
        memcpy(copy, buf, len);
    }
    return copy;
}

#endif
