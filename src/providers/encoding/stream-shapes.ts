import type {
  AppendChunks,
  ChunkPage,
  RecordedChunk,
  StreamChunk,
  StreamPage,
} from '../contract/streams.ts';
import { bounded, fields, keep, list, ofInstance, text } from './treatment.ts';

// The treatments of chunks.

export const appendChunks = fields<AppendChunks>(
  {
    instanceId: keep,
    lockToken: keep,
    claim: keep,
    chunks: bounded(list(text)),
    maxChunks: keep,
    maxBytes: keep,
    record: keep,
  },
  ofInstance,
);

export const chunkPage = fields<ChunkPage>({
  chunks: list(fields<StreamChunk>({ seq: keep, payload: text })),
  over: keep,
});

export const streamPage = fields<StreamPage>({
  instanceKey: keep,
  chunks: list(fields<RecordedChunk>({ seq: keep, payload: text, at: keep, source: keep })),
  lastSeq: keep,
  hasEnded: keep,
  isJob: keep,
});
