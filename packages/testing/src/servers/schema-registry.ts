// A real schema registry for tests: one server per run. Subjects are shared, so tests use unique names.
import { callServers } from './owner/client.ts'

/** `url` is the base of the Confluent-compatible API. Its default compatibility is NONE; a test that needs another sets it. */
export function schemaRegistry(): Promise<{ url: string }> {
  return callServers('schemaRegistry', {})
}
