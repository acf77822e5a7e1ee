/** One record of this origin that all tabs share, in IndexedDB: it can hold a key that no script can read. */

export class Store<Kept> {
  #database: Promise<IDBDatabase> | undefined;

  constructor(readonly name: string) {}

  async get(key: string): Promise<Kept | undefined> {
    return this.#done<Kept | undefined>("readonly", (records) => records.get(key));
  }

  async put(key: string, value: Kept): Promise<void> {
    await this.#done("readwrite", (records) => records.put(value, key));
  }

  async remove(key: string): Promise<void> {
    await this.#done("readwrite", (records) => records.delete(key));
  }

  async #done<T>(mode: IDBTransactionMode, ask: (records: IDBObjectStore) => IDBRequest): Promise<T> {
    const database = await (this.#database ??= opened(this.name));
    return new Promise((resolve, reject) => {
      const transaction = database.transaction("kept", mode);
      const asked = ask(transaction.objectStore("kept"));
      transaction.oncomplete = () => resolve(asked.result as T);
      transaction.onabort = transaction.onerror = () => reject(transaction.error ?? asked.error);
    });
  }
}

function opened(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(name, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("kept");
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}
