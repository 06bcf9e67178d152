// brokkr version: of this command line and of the broker.
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { chooseBroker } from '../../context.ts'
import { show } from '../../show.ts'
import { version } from '../../version.ts'

const requestMs = 3000

export async function printVersion(cli: Cli, _args: readonly string[], options: { output: Form; client?: boolean }): Promise<void> {
  const broker = options.client === true ? null : await readBrokerVersion(cli)
  show(options.output, {
    value: { client: version, node: process.versions.node, broker },
    names: [version],
    lines: () => [
      `brokkr ${version} (node ${process.versions.node})`,
      ...(broker === null ? [] : [`broker ${broker.version} at ${broker.url}`]),
    ],
  })
}

/** Null without a configured or reachable broker: the command must work without one. */
async function readBrokerVersion(cli: Cli): Promise<{ url: string; version: string } | null> {
  try {
    const { broker } = await chooseBroker(cli.globals, cli.env)
    const answer = await fetch(new URL('/docs/openapi.json', broker), { signal: AbortSignal.timeout(requestMs), redirect: 'error' })
    const { info } = (await answer.json()) as { info: { version: string } }
    return { url: broker, version: info.version }
  } catch {
    return null
  }
}
