// Paths of files that are read at run time, beside the sources or beside the bundle.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The worker of large manifests. */
export const manifestWorkerFile = (from: string = import.meta.dirname): URL => findWorker(from, 'deployments', 'manifest-worker')

/** The worker of templates. */
export const templateWorkerFile = (from: string = import.meta.dirname): URL => findWorker(from, 'templates', 'template-worker')

function findWorker(from: string, feature: string, name: string): URL {
  const places = [join(from, feature, `${name}.ts`), join(from, `${name}.js`)]
  const existing = places.find((place) => existsSync(place))
  if (existing === undefined) throw new Error(`${name} not found; tried ${places.join(' and ')}`)
  return pathToFileURL(existing)
}

export function migrationsDir(from: string = import.meta.dirname): string {
  const places = [join(from, '..', 'migrations'), join(from, 'migrations')]
  const path = places.find((place) => existsSync(place))
  if (path === undefined) throw new Error(`migrations not found; tried ${places.join(' and ')}`)
  return path
}

/** Files of the console; null if it was not built. */
export function consoleDir(from: string = import.meta.dirname): string | null {
  const places = [join(from, '..', '..', 'console', 'dist', 'site'), join(from, 'console')]
  return places.find((place) => existsSync(join(place, 'index.html'))) ?? null
}
