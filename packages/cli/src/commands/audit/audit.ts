// brokkr audit list | show | export: who did what, newest first.
import type { Client } from '@brokkr/client'
import type { AuditLog } from '@brokkr/contract/audit/audit-log.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { show, toYaml } from '../../show.ts'

interface AuditOptions {
  readonly output: Form
  readonly action?: string
  readonly actor?: string
  readonly resource?: string
  readonly since?: string
  readonly limit: string
}

export async function listAudit(cli: Cli, _args: readonly string[], options: AuditOptions): Promise<void> {
  const limit = Number(options.limit)
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000)
    throw new CliError(`--limit ${options.limit} is not a number from 1 to 1000`, {
      next: 'brokkr audit export for more',
      exitCode: exitCodes.usage,
    })
  const { logs } = await (await cli.client()).listAuditLogs({ query: { ...toQuery(options), limit } })
  const rows = (isWide: boolean) => logs.map((entry) => toRow(entry, isWide))
  show(options.output, {
    value: logs,
    names: logs.map(({ id }) => id),
    table: () => ({ head: ['TIME', 'WHO', 'ACTION', 'RESOURCE', 'DETAILS'], rows: rows(false) }),
    wide: () => ({ head: ['TIME', 'WHO', 'ACTION', 'RESOURCE', 'DETAILS', 'ADDRESS', 'ID'], rows: rows(true) }),
  })
}

const toQuery = (options: Omit<AuditOptions, 'limit' | 'output'>) => ({
  ...(options.action === undefined ? {} : { action: options.action }),
  ...(options.actor === undefined ? {} : { actor_type: options.actor }),
  ...(options.resource === undefined ? {} : { resource_type: options.resource }),
  ...(options.since === undefined ? {} : { from: new Date(Date.now() - parseDuration(options.since, '--since')).toISOString() }),
})

export function toRow(entry: AuditLog, isWide: boolean): string[] {
  const who = [entry.actor_type, entry.actor_name ?? ''].join(' ').trimEnd()
  const resource = [entry.resource_type, entry.resource_id?.slice(0, 8) ?? ''].join(' ').trimEnd()
  const details = entry.details === null ? '-' : JSON.stringify(entry.details)
  const row = [`${entry.timestamp.slice(0, 19).replace('T', ' ')}Z`, who, entry.action, resource, details]
  return isWide ? [...row, entry.ip_address ?? '-', entry.id] : row
}

export async function showAudit(cli: Cli, [id = '']: readonly string[], options: { output: Form }): Promise<void> {
  for await (const page of pages(await cli.client(), {}))
    for (const entry of page)
      if (entry.id.startsWith(id) && id.length >= 4)
        return show(options.output, { value: entry, names: [entry.id], lines: () => toYaml(entry).trimEnd().split('\n') })
  throw new CliError(`audit entry not found: ${id}`, { next: 'brokkr audit list -o wide', exitCode: exitCodes.notFound })
}

/** One JSON object per line, for other programs. */
export async function exportAudit(cli: Cli, _args: readonly string[], options: Omit<AuditOptions, 'limit'>): Promise<void> {
  for await (const page of pages(await cli.client(), toQuery(options))) for (const entry of page) print(JSON.stringify(entry))
}

async function* pages(client: Client, query: object): AsyncGenerator<readonly AuditLog[]> {
  for await (const page of client.pages('listAuditLogs', { query }, { pageSize: 1000 })) yield page.logs
}
