// brokkr describe NOUN NAME: everything about one resource on one screen.
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { CliError, exitCodes } from '../../output.ts'
import { repeatOnChange, screenPrinter } from '../../screens.ts'
import { show } from '../../show.ts'
import { requireResource } from './resources.ts'

interface DescribeOptions {
  readonly output: Form
  readonly watch?: boolean
}

export async function describe(cli: Cli, [noun = '', name = '']: readonly string[], options: DescribeOptions): Promise<void> {
  const { describe: read } = await requireResource(noun)
  if (read === undefined)
    throw new CliError(`${noun} cannot be described`, { next: `brokkr get ${noun} -o yaml`, exitCode: exitCodes.usage })
  const client = await cli.client()
  const first = await read(client, name)
  if (options.watch !== true) return show(options.output, first)
  const draw = screenPrinter(options.output)
  return repeatOnChange(cli, client, first.scope, async () => draw(await read(client, name)))
}

/** `brokkr agents describe NAME` and the like. */
export const describeNoun =
  (noun: string) =>
  (cli: Cli, [name = '']: readonly string[], options: DescribeOptions): Promise<void> =>
    describe(cli, [noun, name], options)
