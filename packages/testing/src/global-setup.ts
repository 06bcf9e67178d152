// Global setup of the runner's `servers` project: gives the run an owner of its servers and tells every worker where it listens.
// No server starts here; the first test that asks for one starts it.
import type { TestProject } from 'vitest/node'
import type { ServersPath } from './servers/owner/protocol.ts'
import { spawnServersOwner } from './servers/owner/start-owner.ts'

export default async function setup(project: Pick<TestProject, 'provide'>): Promise<() => Promise<void>> {
  const owner = await spawnServersOwner()
  const path: ServersPath = owner.socketPath
  project.provide('brokkrServers', path)
  return () => owner.stop()
}
