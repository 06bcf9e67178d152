// brokkr pipelines: runs the controller with settings from flags.
import type { Cli } from '../../cli.ts'
import { toSettings } from './controller-flags.ts'

export async function runController(
  _cli: Cli,
  _args: readonly string[],
  options: Record<string, string | boolean | undefined>,
): Promise<void> {
  const flags = toSettings(options)
  const file = options['config']
  const env = file === undefined ? process.env : { ...process.env, BROKKR_CONFIG_FILE: String(file) }
  await (await import('@brokkr/pipelines/main.ts')).runPipelines({ env, flags })
}
