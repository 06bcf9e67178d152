import { expect, test } from 'vitest'
import { findKeyLine } from './key-lines.ts'

const toml = '# comment\n[server]\nport = 1\n\n[broker]\nwebhookDeliveryIntervalSeconds = 5\n'
const yaml = 'server:\n  port: 1\nbroker:\n  # comment\n  webhook_delivery_interval_seconds: 5\n'

test.each<[string, string, string, number | null]>([
  ['broker.toml', toml, 'server.port', 3],
  ['broker.toml', toml, 'broker.webhook_delivery_interval_seconds', 6],
  ['broker.toml', toml, 'server.host', 2],
  ['broker.toml', toml, 'feed.poll_ms', null],
  ['broker.toml', 'log.level = "info"\n', 'log.level', 1],
  ['broker.yaml', yaml, 'server.port', 2],
  ['broker.yaml', yaml, 'broker.webhook_delivery_interval_seconds', 5],
  ['broker.yaml', yaml, 'feed.poll_ms', null],
])('%s: the key of a problem is found in its line (%#)', (file, text, path, line) => {
  expect(findKeyLine(file, text, path)).toBe(line)
})
