// Codecs for `Perdure.open(url, { codec })`. They also run in browsers.
export { aesGcm } from './codecs/aes-gcm.ts';
export type { AesGcmOptions } from './codecs/aes-gcm.ts';
export { gzip } from './codecs/gzip.ts';
export type { GzipOptions } from './codecs/gzip.ts';
export type { EncodeContext, EncodedBytes, PayloadCodec } from './model/encoding/codec.ts';
