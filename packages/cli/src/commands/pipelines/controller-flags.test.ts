import { expect, test } from 'vitest'
import { buildProgram } from '../../program.ts'
import { controllerFlags, toSettings } from './controller-flags.ts'
import { pipelineCommands } from './table.ts'

/** The settings that the real command hands to the program. */
function readFlags(...args: string[]): Record<string, unknown> {
  const program = buildProgram(pipelineCommands, {})
  let settings: Record<string, unknown> = {}
  program.commands
    .find((command) => command.name() === 'pipelines')!
    .action((options: Record<string, string | boolean | undefined>) => {
      settings = toSettings(options)
    })
  program.parse(['pipelines', ...args], { from: 'user' })
  return settings
}

const samples = {
  text: ['some-text', 'some-text'],
  seconds: ['1m30s', 90],
  address: [':9090', 9090],
  encoding: ['console', 'pretty'],
} as const

test('the controller changes no setting without flags', () => {
  expect(readFlags()).toEqual({})
})

test.each(controllerFlags.filter(({ form }) => form === 'switch'))('the switch --$name sets $setting', ({ name, setting }) => {
  expect(readFlags(`--${name}`)).toEqual({ [setting]: 'true' })
  expect(readFlags(`--${name}=true`)).toEqual({ [setting]: 'true' })
  expect(readFlags(`--${name}=false`)).toEqual({ [setting]: 'false' })
  expect(readFlags(`--${name}`, 'false')).toEqual({ [setting]: 'false' })
})

test.each(controllerFlags.flatMap(({ name, setting, form }) => (form === 'switch' ? [] : [{ name, setting, sample: samples[form] }])))(
  'the flag --$name sets $setting',
  ({ name, setting, sample: [text, value] }) => {
    expect(readFlags(`--${name}`, text)).toEqual({ [setting]: value })
    expect(readFlags(`--${name}=${text}`)).toEqual({ [setting]: value })
  },
)

test('the host of an address flag holds for all ports', () => {
  expect(readFlags('--metrics-bind-address', '127.0.0.1:9090')).toEqual({
    'pipelines.metrics_port': 9090,
    'pipelines.bind_host': '127.0.0.1',
  })
})
