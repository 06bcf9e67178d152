// The catalogue of errors is closed and alive: each code is used by the broker, or it is known which release will use it.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ErrorCode, errorStatus } from '@brokkr/contract/error.ts'
import { expect, test } from 'vitest'

/** Codes that clients know and that this release has no way to. */
const later: Partial<Record<ErrorCode, string>> = {
  system_generator_not_a_tenant: 'only the system generator itself would get it, and that has no key',
  upgrade_required: 'agents older than two minor releases do not exist yet',
  preview_unavailable: 'previews of data flows',
  pipelines_unavailable: 'pipelines',
  inventory_base_unknown: 'inventories',
  template_not_found: 'templates',
  template_label_not_found: 'templates',
  template_annotation_not_found: 'templates',
  invalid_template_syntax: 'templates',
  invalid_parameters_schema: 'templates',
  invalid_parameters: 'templates',
  template_render_failed: 'templates',
  template_stack_mismatch: 'templates',
  no_targeting_specified: 'work orders',
  invalid_work_order: 'work orders',
  work_order_not_found: 'work orders',
  work_order_not_claimable: 'work orders',
  work_order_log_entry_not_found: 'work orders',
  work_order_attempt_stale: 'work orders',
  work_order_succeeded: 'work orders',
  diagnostic_not_found: 'diagnostics',
  diagnostic_already_claimed: 'diagnostics',
  diagnostic_not_claimed: 'diagnostics',
  invalid_diagnostic_request: 'diagnostics',
  invalid_diagnostic_result: 'diagnostics',
  config_invalid: 'reload of the configuration',
}

const root = join(import.meta.dirname, '..')
const sources = (readdirSync(root, { recursive: true }) as string[])
  .filter((file) => file.endsWith('.ts') && !/\.(test|fixture)\.ts$|test-parts/.test(file))
  .map((file) => readFileSync(join(root, file), 'utf8'))
const isUsed = (code: string): boolean => sources.some((text) => text.includes(`'${code}'`))
/** Put together from the kind of what is missing. */
const fromKinds: ReadonlySet<string> = new Set(['agent_event_not_found'])

test.each(Object.keys(errorStatus) as ErrorCode[])('%s is used, or waits for what will use it', (code) => {
  expect([code, isUsed(code) || fromKinds.has(code)]).toEqual([code, later[code] === undefined])
})

test('statuses are those of the wire', () => {
  for (const [code, status] of Object.entries(errorStatus))
    expect([code, [400, 401, 403, 404, 405, 409, 412, 413, 414, 415, 422, 426, 429, 500, 501, 503].includes(status)]).toEqual([code, true])
})
